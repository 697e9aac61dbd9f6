//! Reports functions of a script that shadow the host's own functions, or variables.

use crate::diagnostic::codes::codes;
use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::SourceFile;
use rhai::{AST, ASTNode, Expr, Position, ScriptFuncDef, Stmt};
use std::collections::HashSet;
use valvehouse_dialect::syntax::statements_of;
use valvehouse_script_std::engine;

codes! {
    /// V506 a function with the name of a host function
    ///
    /// The file has a function with the name and number of parameters of a host function, and calls reach this one instead. It
    /// is an error, because readers must be able to rely on the meaning of `deny(…)`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     deny("too long", 400);
    /// }
    ///
    /// fn deny(message, status) {
    ///     print(message + status);
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     deny("too long", 400);
    /// }
    /// ```
    Shadowed;
}

/// Functions with which a script rejects and answers. A reader must be able to rely on the meaning of `deny(…)`.
const GUARDING: [&str; 6] = ["deny", "skip", "error", "ok", "emit", "ask"];

/// Returns the problems of a file's functions that shadow the host's.
pub(crate) fn of_host(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let methods = methods(ast);
    for function in ast.iter_functions().filter(|function| !function.name.starts_with("anon$")) {
        let (name, count) = (function.name, function.params.len());
        let Some(arities) = engine::arities(name) else { continue };
        let problem = |what: String| {
            let problem = Diagnostic::of(Code::Shadowed, file, what).at_function(source, name);
            problem.help(format!("rename it, for example to `my_{name}`"))
        };
        if arities.contains(&count) {
            let hidden = problem(format!("`{name}` replaces the host's function `{}`", call(name, count)));
            problems.push(if GUARDING.contains(&name) { hidden } else { hidden.warning() });
        } else if arities.contains(&(count + 1)) && methods.contains(&(name.to_owned(), count)) {
            let method = format!("value.{}", call(name, count));
            problems.push(problem(format!("`{name}` replaces the host's method `{method}`")).warning());
        }
    }
    problems
}

/// Returns the problems of variables that a closure does not see because a function of the file has the same name:
/// within a closure, Rhai resolves the name to the function.
pub(crate) fn of_variables(ast: &AST, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
    let is_closure = |name: &str| name.starts_with("anon$");
    if !ast.iter_functions().any(|function| is_closure(function.name)) {
        return Vec::new();
    }
    let named: HashSet<&str> = ast.iter_functions().map(|function| function.name).collect();
    let (mut around, mut problems): (Vec<(usize, HashSet<String>)>, Vec<Diagnostic>) =
        (Vec::new(), Vec::new());
    let functions: Vec<Function> = ast.iter_fn_def().map(|function| Function::of(function)).collect();
    for function in functions.iter().filter(|function| !is_closure(&function.name)) {
        let place = Diagnostic::of(Code::Twice, file, "").at_function(source, &function.name);
        around.push((place.line.unwrap_or(0), function.own.clone()));
    }
    around.sort_by_key(|(line, _)| *line);
    for closure in functions.iter().filter(|function| is_closure(&function.name)) {
        for (name, position) in &closure.uses {
            let line = position.line().unwrap_or(0);
            let within = around.iter().rev().find(|(begin, _)| *begin <= line);
            let is_hidden = named.contains(name.as_str())
                && !closure.own.contains(name)
                && within.is_some_and(|(_, own)| own.contains(name));
            if is_hidden {
                let message = format!(
                    "this closure uses the function `{name}` instead of the variable of the same name"
                );
                let problem = Diagnostic::of(Code::Twice, file, message).at(source, *position);
                problems.push(problem.help("rename one of the two").warning());
            }
        }
    }
    problems.truncate(MAX_PROBLEMS);
    problems
}

/// The names of a function.
struct Function {
    name: String,
    /// Its parameters and variables.
    own: HashSet<String>,
    uses: Vec<(String, Position)>,
}

impl Function {
    fn of(function: &ScriptFuncDef) -> Self {
        let mut own: HashSet<String> = function.params.iter().map(ToString::to_string).collect();
        let mut uses = Vec::new();
        let mut look = |path: &[ASTNode<'_>]| {
            match path.last() {
                Some(ASTNode::Expr(Expr::Variable(variable, _, position))) => {
                    uses.push((variable.1.to_string(), *position));
                }
                Some(ASTNode::Stmt(Stmt::Var(variable, ..))) => {
                    own.insert(variable.0.name.to_string());
                }
                Some(ASTNode::Stmt(Stmt::For(parts, _))) => {
                    own.insert(parts.0.name.to_string());
                }
                _ => {}
            }
            true
        };
        for statement in statements_of(function) {
            statement.walk(&mut Vec::new(), &mut look);
        }
        Self { name: function.name.to_string(), own, uses }
    }
}

/// Returns the names of called methods with their numbers of arguments. Such a call finds a function of the script
/// first, although the receiver is not one of its arguments.
fn methods(ast: &AST) -> HashSet<(String, usize)> {
    let mut methods = HashSet::new();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Expr(Expr::MethodCall(call, _))) = path.last() {
            methods.insert((call.name.to_string(), call.args.len()));
        }
        true
    });
    methods
}

/// Returns a call with placeholders, such as `push(_, _)`.
fn call(name: &str, count: usize) -> String {
    format!("{name}({})", vec!["_"; count].join(", "))
}
