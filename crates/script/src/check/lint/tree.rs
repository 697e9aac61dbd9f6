//! Walks a script's syntax tree for lints, and collects what they know about a file: its functions with their
//! bodies, and all words in it. A chain of properties and indexes is one expression with links.

use crate::Script;
use crate::declare::manifest::Manifest;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::imports::ModuleFile;
use crate::load::source::{Kind, SourceFile};
use rhai::{AST, ASTFlags, Expr, FnAccess, FnCallExpr, OptimizationLevel, Position, ScriptFuncDef, Stmt};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use valvehouse_dialect::syntax::{statements_of, tokens};
use valvehouse_script_std::engine;

/// A node of the syntax tree.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    Stmt(&'a Stmt),
    Expr(&'a Expr),
}

/// A link after the first word of `body.messages[0].len()`.
pub(super) enum Link<'a> {
    Property(&'a str, Position),
    Index(&'a Expr),
    Call(&'a FnCallExpr),
}

/// Visits every node with its ancestors, outermost first.
pub(super) fn each<'a>(statements: &'a [Stmt], look: &mut impl FnMut(Node<'a>, &[Node<'a>])) {
    let mut above = Vec::new();
    for statement in statements {
        visit(Node::Stmt(statement), &mut above, look);
    }
}

/// Visits every node of one expression with its ancestors.
pub(super) fn each_in<'a>(expression: &'a Expr, look: &mut impl FnMut(Node<'a>, &[Node<'a>])) {
    visit(Node::Expr(expression), &mut Vec::new(), look);
}

fn visit<'a>(node: Node<'a>, above: &mut Vec<Node<'a>>, look: &mut impl FnMut(Node<'a>, &[Node<'a>])) {
    look(node, above);
    above.push(node);
    for child in children(node) {
        visit(child, above, look);
    }
    above.pop();
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    match node {
        Node::Stmt(statement) => {
            found.extend(expressions_of(statement).into_iter().map(Node::Expr));
            found.extend(blocks_of(statement).into_iter().flatten().map(Node::Stmt));
        }
        Node::Expr(expression) => match expression {
            Expr::InterpolatedString(parts, _) | Expr::Array(parts, _) => {
                found.extend(parts.iter().map(Node::Expr));
            }
            Expr::Map(map, _) => found.extend(map.0.iter().map(|(_, value)| Node::Expr(value))),
            Expr::MethodCall(call, _) | Expr::FnCall(call, _) => {
                found.extend(call.args.iter().map(Node::Expr));
            }
            Expr::Dot(..) | Expr::Index(..) => {
                let (root, links) = parts(expression);
                found.push(Node::Expr(root));
                found.extend(links.into_iter().map(|(_, link)| Node::Expr(link)));
            }
            Expr::And(parts, _) | Expr::Or(parts, _) | Expr::Coalesce(parts, _) => {
                found.extend(parts.iter().map(Node::Expr));
            }
            Expr::Custom(custom, _) => found.extend(custom.inputs.iter().map(Node::Expr)),
            Expr::Stmt(block) => found.extend(block.statements().iter().map(Node::Stmt)),
            _ => {}
        },
    }
    found
}

/// Returns the expressions directly in a statement.
fn expressions_of(statement: &Stmt) -> Vec<&Expr> {
    match statement {
        Stmt::If(flow, _) | Stmt::While(flow, _) | Stmt::Do(flow, ..) => vec![&flow.expr],
        Stmt::For(parts, _) => vec![&parts.2.expr],
        Stmt::Switch(switch, _) => {
            let cases = switch.1.expressions.iter().flat_map(|case| [&case.lhs, &case.rhs]);
            std::iter::once(&switch.0).chain(cases).collect()
        }
        Stmt::Var(variable, ..) => vec![&variable.1],
        Stmt::Assignment(assignment) => vec![&assignment.1.lhs, &assignment.1.rhs],
        Stmt::FnCall(call, _) => call.args.iter().collect(),
        Stmt::Expr(expression) => vec![expression],
        Stmt::BreakLoop(Some(value), ..) | Stmt::Return(Some(value), ..) => vec![value],
        _ => Vec::new(),
    }
}

/// Returns the blocks of a statement.
pub(super) fn blocks_of(statement: &Stmt) -> Vec<&[Stmt]> {
    match statement {
        Stmt::If(flow, _) | Stmt::TryCatch(flow, _) => {
            vec![flow.body.statements(), flow.branch.statements()]
        }
        Stmt::While(flow, _) | Stmt::Do(flow, ..) => vec![flow.body.statements()],
        Stmt::For(parts, _) => vec![parts.2.body.statements()],
        Stmt::Block(block) => vec![block.statements()],
        _ => Vec::new(),
    }
}

/// Visits every block: the statements themselves and those nested in them.
pub(super) fn each_block<'a>(statements: &'a [Stmt], look: &mut impl FnMut(&'a [Stmt])) {
    look(statements);
    each(statements, &mut |node, _| match node {
        Node::Stmt(statement) => blocks_of(statement).into_iter().for_each(&mut *look),
        Node::Expr(Expr::Stmt(block)) => look(block.statements()),
        Node::Expr(_) => {}
    });
}

/// Visits the blocks directly in the expressions of a statement, which are used as values.
pub(super) fn each_value_block<'a>(statement: &'a Stmt, look: &mut impl FnMut(&'a [Stmt])) {
    fn search<'a>(expression: &'a Expr, look: &mut impl FnMut(&'a [Stmt])) {
        match expression {
            Expr::Stmt(block) => look(block.statements()),
            other => children(Node::Expr(other)).into_iter().for_each(|child| {
                if let Node::Expr(inner) = child {
                    search(inner, look);
                }
            }),
        }
    }
    expressions_of(statement).into_iter().for_each(|expression| search(expression, look));
}

/// Splits a chain of properties and indexes into its first expression and its links. Any other expression has no
/// links.
pub(super) fn chain(expression: &Expr) -> (&Expr, Vec<Link<'_>>) {
    let (root, links) = parts(expression);
    let links = links.into_iter().map(|(is_dot, link)| match link {
        Expr::Property(property, position) if is_dot => Link::Property(&property.2, *position),
        Expr::MethodCall(call, _) if is_dot => Link::Call(call),
        index => Link::Index(index),
    });
    (root, links.collect())
}

fn parts(expression: &Expr) -> (&Expr, Vec<(bool, &Expr)>) {
    let (Expr::Dot(first, flags, _) | Expr::Index(first, flags, _)) = expression else {
        return (expression, Vec::new());
    };
    let mut links = Vec::new();
    let mut is_dot = matches!(expression, Expr::Dot(..));
    let (mut rest, mut is_last) = (&first.rhs, flags.contains(ASTFlags::BREAK));
    while let Expr::Dot(next, flags, _) | Expr::Index(next, flags, _) = rest {
        if is_last {
            break;
        }
        links.push((is_dot, &next.lhs));
        is_dot = matches!(rest, Expr::Dot(..));
        (rest, is_last) = (&next.rhs, flags.contains(ASTFlags::BREAK));
    }
    links.push((is_dot, rest));
    (&first.lhs, links)
}

/// Returns the name of a variable of this file.
pub(super) fn variable(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Variable(variable, ..) if variable.2.path.is_empty() => Some(&variable.1),
        _ => None,
    }
}

/// Returns the value of a string literal.
pub(super) fn text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::StringConstant(text, _) => Some(text),
        _ => None,
    }
}

/// Returns the module of a call such as `words::shout`.
pub(super) fn module_of(call: &FnCallExpr) -> String {
    call.namespace.path.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("::")
}

/// Returns a call in any form, and `true` if it is a method call.
pub(super) fn call(node: Node<'_>) -> Option<(&FnCallExpr, bool, Position)> {
    match node {
        Node::Expr(Expr::FnCall(call, position)) | Node::Stmt(Stmt::FnCall(call, position)) => {
            Some((call, false, *position))
        }
        Node::Expr(Expr::MethodCall(call, position)) => Some((call, true, *position)),
        _ => None,
    }
}

/// The functions of imported modules by alias, with their numbers of arguments; `None` if a module cannot be read.
pub(crate) type ModuleFunctions = BTreeMap<String, Option<BTreeSet<(String, usize)>>>;

/// A file as lints see it.
pub(super) struct View<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) source: &'a str,
    /// The script; `None` for a module, and while a script loads.
    pub(super) script: Option<&'a Script>,
    /// The functions, including closures.
    pub(super) functions: Vec<Body>,
    pub(super) modules: ModuleFunctions,
    /// The words after a dot anywhere in the file.
    pub(super) properties: HashSet<String>,
    /// The string literals in the file.
    pub(super) texts: HashSet<String>,
    /// The variables that closures share with the code around them.
    pub(super) shared: HashSet<String>,
    /// The keys that are assigned, in a map literal or after a dot.
    pub(super) written: HashSet<String>,
}

/// A function and its body.
pub(super) struct Body {
    pub(super) name: String,
    pub(super) params: Vec<String>,
    pub(super) statements: Vec<Stmt>,
}

impl Body {
    pub(super) fn is_closure(&self) -> bool {
        self.name.starts_with("anon$")
    }

    /// Returns its parameters and variables.
    pub(super) fn names(&self) -> HashSet<String> {
        let mut names: HashSet<String> = self.params.iter().cloned().collect();
        each(&self.statements, &mut |node, _| match node {
            Node::Stmt(Stmt::Var(variable, ..)) => _ = names.insert(variable.0.name.to_string()),
            Node::Stmt(Stmt::For(parts, _)) => _ = names.insert(parts.0.name.to_string()),
            _ => {}
        });
        names
    }

    fn of(function: &ScriptFuncDef) -> Self {
        let params = function.params.iter().map(ToString::to_string).collect();
        Self { name: function.name.to_string(), params, statements: statements_of(function) }
    }
}

impl<'a> View<'a> {
    pub(super) fn of(
        file: &'a SourceFile,
        source: &'a str,
        ast: &AST,
        script: Option<&'a Script>,
        modules: ModuleFunctions,
    ) -> Self {
        let functions = ast.iter_fn_def().map(|function| Body::of(function));
        let mut view = Self {
            file,
            source,
            script,
            functions: functions.collect(),
            modules,
            properties: HashSet::new(),
            texts: HashSet::new(),
            shared: HashSet::new(),
            written: HashSet::new(),
        };
        view.note_words(ast.statements());
        let functions = std::mem::take(&mut view.functions);
        functions.iter().for_each(|function| view.note_words(&function.statements));
        view.functions = functions;
        view
    }

    pub(super) fn manifest(&self) -> Option<&'a Manifest> {
        self.script.map(|script| &script.manifest)
    }

    /// Returns the script if it is of this kind.
    pub(super) fn script_of(&self, kind: Kind) -> Option<&'a Script> {
        self.script.filter(|script| script.file.kind == kind)
    }

    /// Finds problems in each node of all functions; the second argument of `find` is its ancestors.
    pub(super) fn in_nodes<I: IntoIterator<Item = Diagnostic>>(
        &self,
        find: impl Fn(Node<'_>, &[Node<'_>]) -> I,
    ) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        for function in &self.functions {
            each(&function.statements, &mut |node, above| problems.extend(find(node, above)));
        }
        problems
    }

    /// Finds problems in each block of all functions.
    pub(super) fn in_blocks(&self, find: impl Fn(&[Stmt]) -> Option<Diagnostic>) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        for function in &self.functions {
            each_block(&function.statements, &mut |block| problems.extend(find(block)));
        }
        problems
    }

    /// Finds problems in each function.
    pub(super) fn in_functions<I: IntoIterator<Item = Diagnostic>>(
        &self,
        find: impl Fn(&Body) -> I,
    ) -> Vec<Diagnostic> {
        self.functions.iter().flat_map(find).collect()
    }

    /// Creates a problem at a position in the file.
    pub(super) fn problem(&self, code: Code, position: Position, message: impl Into<String>) -> Diagnostic {
        Diagnostic::of(code, self.file, message).at(self.source, position)
    }

    fn note_words(&mut self, statements: &[Stmt]) {
        each(statements, &mut |node, _| match node {
            Node::Expr(Expr::Property(property, _)) => {
                self.properties.insert(property.2.to_string());
            }
            Node::Expr(Expr::StringConstant(text, _)) => {
                self.texts.insert(text.to_string());
            }
            Node::Expr(Expr::Map(map, _)) => {
                self.written.extend(map.0.iter().map(|(key, _)| key.name.to_string()));
            }
            Node::Stmt(Stmt::Share(names)) => {
                self.shared.extend(names.iter().map(|(name, _)| name.name.to_string()));
            }
            Node::Stmt(Stmt::Assignment(assignment)) => {
                if let Some(Link::Property(name, _)) = chain(&assignment.1.lhs).1.last() {
                    self.written.insert((*name).to_owned());
                }
            }
            _ => {}
        });
    }
}

/// Reads the functions of the modules that a file imports. The key is that of a module; a script has none.
pub(super) fn modules(file: &SourceFile, ast: &AST, key: &str) -> ModuleFunctions {
    let mut modules = BTreeMap::new();
    for statement in ast.statements() {
        let Stmt::Import(import, _) = statement else { continue };
        let found = text(&import.0).and_then(|name| file.imports.get(key, name)?.as_ref().ok());
        modules.insert(import.1.name.to_string(), found.and_then(functions_of));
    }
    modules
}

fn functions_of(module: &ModuleFile) -> Option<BTreeSet<(String, usize)>> {
    let mut engine = engine::new();
    engine.set_optimization_level(OptimizationLevel::None);
    let ast = tokens::compile(&engine, module.text.trim_start_matches('\u{feff}')).ok()?;
    Some(public_functions(&ast))
}

/// Returns the functions that a module offers, with their numbers of arguments.
pub(crate) fn public_functions(ast: &AST) -> BTreeSet<(String, usize)> {
    let public = ast.iter_functions().filter(|function| function.access == FnAccess::Public);
    public.map(|function| (function.name.to_owned(), function.params.len())).collect()
}
