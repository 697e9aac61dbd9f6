//! Reports unused answers: an `error(…)` that is not returned, and a `try` that is used as a value.

use super::rule::{Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::diagnostic::{Cause, Code, Diagnostic};
use rhai::{Expr, FnCallExpr, Position, Stmt};
use std::collections::HashSet;

rules! {
    /// V613 an answer that is not returned
    ///
    /// `error(…)` and `skip(…)` build an answer, which must be returned by the hook. An unreturned one makes the call fail at
    /// run time.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     if body.messages.len() > 40 {
    ///         error("too long");
    ///     }
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     if body.messages.len() > 40 {
    ///         return error("too long");
    ///     }
    ///     body
    /// }
    /// ```
    LostAnswer { find: lost_answers }

    /// V614 a `try` used as a value
    ///
    /// `try { … } catch { … }` is a statement and its value is always `()`. Use `return` inside the blocks.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     try {
    ///         body.count = parse_int(body.user);
    ///         body
    ///     } catch (e) {
    ///         error(e.message)
    ///     }
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     try {
    ///         body.count = parse_int(body.user);
    ///     } catch (e) {
    ///         return error(e.message);
    ///     }
    ///     body
    /// }
    /// ```
    TryAsValue { find: |view| view.in_functions(|function| try_as_value(view, function)) }
}

/// Functions that build an answer.
const BUILD: [&str; 2] = ["error", "skip"];

/// Reports answers that a function builds and does not return.
fn lost_answers(view: &View<'_>) -> Vec<Diagnostic> {
    let answering = answering(view);
    view.in_functions(|function| lost(view, function, &answering))
}

/// Returns the functions of the file that return an answer without using it themselves.
fn answering(view: &View<'_>) -> HashSet<String> {
    let gives = |function: &Body| {
        let mut found = tails(&function.statements).iter().any(|call| is_built(view, call.0));
        tree::each(&function.statements, &mut |node, _| {
            if let Node::Stmt(Stmt::Return(Some(value), ..)) = node
                && let Expr::FnCall(call, _) = &**value
            {
                found |= is_built(view, call);
            }
        });
        found
    };
    let named = view.functions.iter().filter(|function| !function.is_closure() && gives(function));
    named.map(|function| function.name.clone()).collect()
}

fn is_built(view: &View<'_>, call: &FnCallExpr) -> bool {
    let is_own = view.functions.iter().any(|function| function.name == call.name.as_str());
    BUILD.contains(&call.name.as_str()) && call.namespace.path.is_empty() && !is_own
}

/// Returns the calls at the end of a block, on every branch.
fn tails(statements: &[Stmt]) -> Vec<(&FnCallExpr, Position)> {
    match statements.last() {
        Some(Stmt::FnCall(call, position)) => vec![(call, *position)],
        Some(Stmt::Expr(value)) => match &**value {
            Expr::FnCall(call, position) => vec![(call, *position)],
            Expr::Stmt(block) => tails(block.statements()),
            _ => Vec::new(),
        },
        Some(Stmt::If(flow, _)) => [tails(flow.body.statements()), tails(flow.branch.statements())].concat(),
        Some(Stmt::Block(block)) => tails(block.statements()),
        Some(Stmt::Switch(switch, _)) => {
            let cases = switch.1.expressions.iter().map(|case| &case.rhs);
            cases
                .flat_map(|case| match case {
                    Expr::FnCall(call, position) => vec![(&**call, *position)],
                    Expr::Stmt(block) => tails(block.statements()),
                    _ => Vec::new(),
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Reports statements that build an answer and discard it.
fn lost(view: &View<'_>, function: &Body, answering: &HashSet<String>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let mut taken: HashSet<Position> =
        tails(&function.statements).into_iter().map(|(_, place)| place).collect();
    if let Some(Stmt::TryCatch(flow, _)) = function.statements.last() {
        // The `try` itself is reported, so its answers are not.
        let ends = [tails(flow.body.statements()), tails(flow.branch.statements())].concat();
        taken.extend(ends.into_iter().map(|(_, place)| place));
    }
    let mut positions = HashSet::new();
    tree::each_block(&function.statements, &mut |block: &[Stmt]| {
        problems.extend(unused(view, block, answering));
        for statement in block {
            let (call, position) = match statement {
                Stmt::FnCall(call, position) => (&**call, *position),
                Stmt::Expr(value) => match &**value {
                    Expr::FnCall(call, position) => (&**call, *position),
                    _ => continue,
                },
                _ => continue,
            };
            let name = call.name.as_str();
            let builds = is_built(view, call);
            let gives = call.namespace.path.is_empty() && answering.contains(name);
            if !(builds || gives) || taken.contains(&position) || !positions.insert(position) {
                continue;
            }
            // The last value of a closure is returned to its caller.
            if function.is_closure() && is_last(&function.statements, statement) {
                continue;
            }
            let what = match builds {
                true => format!("the answer of `{name}(…)` is not returned here"),
                false => format!("`{name}(…)` may return an answer, which is dropped here"),
            };
            let problem = view.problem(Code::LostAnswer, position, what);
            problems.push(match builds {
                true => problem
                    .help(format!("write `return {name}(…);`, or call `deny(…)`, which ends the hook"))
                    .because(Cause::NotReturned),
                false => problem.help(format!(
                    "use `deny(…)` in `{name}`, which ends the hook, or return the value of `{name}(…)`"
                )),
            });
        }
    });
    problems
}

/// Reports variables with an answer that the rest of their block does not use.
fn unused(view: &View<'_>, block: &[Stmt], answering: &HashSet<String>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for (at, statement) in block.iter().enumerate() {
        let Stmt::Var(variable, ..) = statement else { continue };
        let Expr::FnCall(call, _) = &variable.1 else { continue };
        let gives = call.namespace.path.is_empty() && answering.contains(call.name.as_str());
        let mut is_used = !(gives || is_built(view, call));
        tree::each(&block[at + 1..], &mut |node, _| match node {
            Node::Expr(value) => is_used |= tree::variable(value) == Some(variable.0.name.as_str()),
            Node::Stmt(Stmt::Share(names)) => {
                is_used |= names.iter().any(|(shared, _)| shared.name == variable.0.name);
            }
            Node::Stmt(_) => {}
        });
        if !is_used {
            let name = &variable.0.name;
            let what = format!("the answer in `{name}` is not returned");
            let help = format!("write `return {name};`, or call `deny(…)`, which ends the hook");
            let problem = view.problem(Code::LostAnswer, variable.0.pos, what).help(help);
            problems.push(problem.because(Cause::NotReturned));
        }
    }
    problems
}

fn is_last(statements: &[Stmt], statement: &Stmt) -> bool {
    statements.last().is_some_and(|last| std::ptr::eq(last, statement))
}

/// Reports a function that ends with a `try` whose blocks end with values.
fn try_as_value(view: &View<'_>, function: &Body) -> Option<Diagnostic> {
    let Some(Stmt::TryCatch(flow, position)) = function.statements.last() else { return None };
    let ends = [flow.body.statements(), flow.branch.statements()];
    let is_answer = |block: &[Stmt]| tails(block).iter().any(|(call, _)| is_built(view, call));
    let is_meant = ends.iter().any(|block| ends_with_value(block) || is_answer(block));
    is_meant.then(|| {
        view.problem(
            Code::TryAsValue,
            *position,
            "`try` has the value `()`, even if its blocks end with another value",
        )
        .help("write `return …;` inside the blocks, or set a variable there and return it at the end")
    })
}

/// Returns `true` if a block ends with an expression that only makes sense as a value.
fn ends_with_value(block: &[Stmt]) -> bool {
    let Some(Stmt::Expr(value)) = block.last() else { return false };
    match &**value {
        Expr::Variable(..) | Expr::Map(..) | Expr::Array(..) | Expr::StringConstant(..) => true,
        Expr::Dot(..) | Expr::Index(..) => !matches!(tree::chain(value).1.last(), Some(Link::Call(_))),
        _ => false,
    }
}
