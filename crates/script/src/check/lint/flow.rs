//! Reports unreachable code and unread variables.

use super::quotes;
use super::rule::{Rule, rules};
use super::tree::{self, Body, Node, View};
use crate::diagnostic::{Cause, Code, Diagnostic, Fix, Spot, is_part};
use rhai::{Expr, Position, Stmt};
use std::collections::HashSet;

rules! {
    /// V606 an unused variable
    ///
    /// The variable is assigned but never read: it is left over, or misspelled where it is read.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     let limit = 4;
    ///     body.limit = 5;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     let limit = 4;
    ///     body.limit = limit;
    /// }
    /// ```
    UnusedVariable { find: |view| view.in_functions(|function| unused(view, function)), fix: renamed }

    /// V607 unreachable code
    ///
    /// The code before it always ends with `return`, `throw`, `break` or `deny(…)`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     deny("closed", 503);
    ///     body.model = "demo";
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     if body.model == "demo" {
    ///         deny("closed", 503);
    ///     }
    ///     body.model = "demo";
    /// }
    /// ```
    Unreachable { find: |view| view.in_blocks(|block| unreachable(view, block)) }

    /// V608 an unused comparison
    ///
    /// `==` compares, `=` assigns. A comparison as a statement has no effect.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model == "demo";
    ///     body.stream = false;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = "demo";
    ///     body.stream = false;
    /// }
    /// ```
    IdleComparison { find: |view| view.in_blocks(|block| idle(view, block)) }
}

const COMPARISONS: [&str; 6] = ["==", "!=", "<", ">", "<=", ">="];

/// Reports variables that are not read.
fn unused(view: &View<'_>, function: &Body) -> Vec<Diagnostic> {
    let (mut unread, mut redeclared) = (unread(view, function), Vec::new());
    find_redeclared(view, &function.statements, &mut HashSet::new(), &mut redeclared);
    redeclared
        .retain(|other| unread.iter().all(|known| (known.line, known.column) != (other.line, other.column)));
    unread.extend(redeclared);
    unread
}

/// Reports code after a statement that always leaves the block.
fn unreachable(view: &View<'_>, block: &[Stmt]) -> Option<Diagnostic> {
    let last = block.iter().position(ends)?;
    let next = block[last + 1..].iter().find(|next| !matches!(next, Stmt::Noop(_) | Stmt::Share(_)))?;
    let position = beginning(next)?;
    let diagnostic = view.problem(Code::Unreachable, position, "unreachable code");
    Some(diagnostic.help(format!(
        "{} always ends the block before this line; remove one of the two",
        ending(&block[last])
    )))
}

fn ends(statement: &Stmt) -> bool {
    match statement {
        Stmt::Return(..) | Stmt::BreakLoop(..) => true,
        // A `throw`, the only custom syntax.
        Stmt::Expr(expression) => {
            matches!(&**expression, Expr::Custom(..)) || is_deny(Node::Expr(expression))
        }
        Stmt::FnCall(..) => is_deny(Node::Stmt(statement)),
        _ => false,
    }
}

fn is_deny(node: Node<'_>) -> bool {
    tree::call(node).is_some_and(|(call, is_method, _)| {
        &*call.name == "deny" && !is_method && call.namespace.path.is_empty()
    })
}

fn ending(statement: &Stmt) -> &'static str {
    match statement {
        Stmt::Return(..) => "`return`",
        Stmt::BreakLoop(..) => "`break` or `continue`",
        Stmt::Expr(expression) if matches!(&**expression, Expr::Custom(..)) => "`throw`",
        _ => "`deny`",
    }
}

/// Returns the position of a statement: that of the first word of a chain.
fn beginning(statement: &Stmt) -> Option<Position> {
    let position = match statement {
        Stmt::Expr(expression) => match tree::chain(expression).0 {
            Expr::FnCall(call, position) => call.namespace.path.first().map_or(*position, |first| first.pos),
            root => root.position(),
        },
        Stmt::Assignment(assignment) => tree::chain(&assignment.1.lhs).0.position(),
        Stmt::FnCall(call, position) => call.namespace.path.first().map_or(*position, |first| first.pos),
        other => other.position(),
    };
    (!position.is_none()).then_some(position)
}

/// Reports comparisons that are statements; the last one of a block may be its value.
fn idle(view: &View<'_>, block: &[Stmt]) -> Option<Diagnostic> {
    let (_, before) = block.split_last()?;
    before.iter().find_map(|statement| {
        let (name, position) = comparison(statement)?;
        let message = format!("unused result of the comparison `{name}`");
        let problem = view.problem(Code::IdleComparison, position, message);
        Some(match name {
            "==" => problem
                .help("assign with a single `=`, or use the comparison in an `if`")
                .because(Cause::written("==", "=")),
            _ => problem.help("use the comparison in an `if`, or assign it with `let x =`"),
        })
    })
}

/// Returns the operator and the position of a statement that is a comparison.
pub(super) fn comparison(statement: &Stmt) -> Option<(&str, Position)> {
    let (call, _, position) = match statement {
        Stmt::Expr(expression) => tree::call(Node::Expr(expression))?,
        statement => tree::call(Node::Stmt(statement))?,
    };
    let is_comparison = call.op_token.is_some() && COMPARISONS.contains(&&*call.name);
    is_comparison.then_some((&*call.name, position))
}

/// Reports variables that are assigned but never read.
fn unread(view: &View<'_>, function: &Body) -> Vec<Diagnostic> {
    let mut declared: Vec<(String, Position)> = Vec::new();
    tree::each(&function.statements, &mut |node, _| {
        if let Node::Stmt(Stmt::Var(variable, ..)) = node {
            declared.push((variable.0.name.to_string(), variable.0.pos));
        }
    });
    let mut read = HashSet::new();
    add_read(&function.statements, &mut read);
    let unread = declared.into_iter().filter(|(name, _)| !name.starts_with('_') && !read.contains(name));
    unread
        .map(|(name, position)| {
            let diagnostic =
                view.problem(Code::UnusedVariable, position, format!("unused variable `{name}`"));
            diagnostic.help(format!("remove it, or rename it to `_{name}` to keep it"))
        })
        .collect()
}

/// Reports `let x = 2;` in a block within that of another `x`, if the block does not read it: it was meant to change
/// the other one. `around` are the variables of the blocks around.
fn find_redeclared<'a>(
    view: &View<'_>,
    block: &'a [Stmt],
    around: &mut HashSet<&'a str>,
    problems: &mut Vec<Diagnostic>,
) {
    let mut read = HashSet::new();
    for statement in block.iter().rev().filter(|_| !around.is_empty()) {
        if let Stmt::Var(variable, ..) = statement
            && let name = variable.0.name.as_str()
            && around.contains(name)
            && !name.starts_with('_')
            && !read.contains(name)
        {
            let what = format!(
                "unused variable `{name}`: it ends with this block and is another one than `{name}` above"
            );
            let problem = view.problem(Code::UnusedVariable, variable.0.pos, what);
            let problem = problem.help(format!("write `{name} = …` to change the variable above"));
            problems.push(problem.because(Cause::Needless("let ")));
        }
        add_read(std::slice::from_ref(statement), &mut read);
    }
    let mut own = Vec::new();
    for statement in block {
        tree::blocks_of(statement)
            .into_iter()
            .for_each(|inner| find_redeclared(view, inner, around, problems));
        if let Stmt::Var(variable, ..) = statement {
            let name = variable.0.name.as_str();
            own.extend(around.insert(name).then_some(name));
        }
    }
    for name in own {
        around.remove(name);
    }
}

/// Adds the variables that statements read. One that is only assigned is not read.
fn add_read(statements: &[Stmt], read: &mut HashSet<String>) {
    tree::each(statements, &mut |node, above| match node {
        Node::Expr(expression @ Expr::Variable(..)) => {
            let is_target = matches!(above.last(), Some(Node::Stmt(Stmt::Assignment(assignment)))
                if std::ptr::eq(&assignment.1.lhs, expression));
            if let Some(name) = tree::variable(expression).filter(|_| !is_target) {
                read.insert(name.to_owned());
            }
        }
        // A placeholder in double quotes counts as read, because it is reported separately.
        Node::Expr(Expr::StringConstant(text, _)) => read.extend(quotes::placeholders(text)),
        Node::Stmt(Stmt::Share(names)) => read.extend(names.iter().map(|(name, _)| name.name.to_string())),
        _ => {}
    });
}

/// Renames an unused variable to one with a leading underscore.
fn renamed(spot: &Spot<'_>) -> Option<Fix> {
    let name = spot.name_at(spot.at)?;
    let text = format!("_{}", &spot.source[name.clone()]);
    // A variable that is only assigned is named again.
    let rest = spot.code[name.end..].split("\nfn ").next()?;
    let mut words = rest.split(|letter| !is_part(letter));
    let is_alone = !words.any(|word| word == &text[1..]);
    is_alone.then(|| Fix::new(format!("Rename to `{text}`"), name, text))
}
