//! Reports changes of copies: lists and maps of a script are passed by value.

use super::rule::{Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::declare::hooks;
use crate::diagnostic::{Code, Diagnostic};
use rhai::{Expr, Stmt};
use std::collections::HashSet;
use valvehouse_core::filter::Hook;
use valvehouse_dialect::instrument::{Kinds, KnownFunctions, OperandKind};
use valvehouse_json::Json;
use valvehouse_script_std::reference;

rules! {
    /// V610 a lost assignment
    ///
    /// A parameter is local: `body = …` only changes it inside the function. Return the new value at the end, or change the
    /// given value in place.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body = #{ model: "demo", messages: body.messages };
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body = #{ model: "demo", messages: body.messages };
    ///     body
    /// }
    /// ```
    LostAssignment { find: lost_changes }
}

/// Methods that change a list or map in place.
const CHANGING: [&str; 8] = ["push", "insert", "append", "remove", "set", "mixin", "clear", "retain"];

/// Reports assignments to parameters in hooks, and changes of copies by the functions of the file.
fn lost_changes(view: &View<'_>) -> Vec<Diagnostic> {
    let none = Json::object();
    let valves = view.script.map_or(&none, |script| &script.valves);
    let own: HashSet<String> = view.functions.iter().map(|function| function.name.clone()).collect();
    let known = KnownFunctions { own: &own, booleans: reference::boolean_functions() };
    view.in_functions(|function| {
        let params: Vec<&str> = function.params.iter().map(String::as_str).collect();
        let kinds = Kinds::in_body(&function.name, &params, &function.statements, valves, None, known);
        let mut problems = Vec::from_iter(lost_in_hook(view, function));
        tree::each(&function.statements, &mut |node, _| problems.extend(lost_in_call(view, &kinds, node)));
        problems
    })
}

/// Reports `body = …` in a hook that does not return it: the host continues with the value it passed.
fn lost_in_hook(view: &View<'_>, function: &Body) -> Option<Diagnostic> {
    let subject = Hook::from_name(&function.name).and_then(hooks::subject_name)?;
    if !function.params.iter().any(|param| param == subject) || returns_something(function) {
        return None;
    }
    let mut assigned = None;
    tree::each(&function.statements, &mut |node, _| {
        if let Node::Stmt(Stmt::Assignment(assignment)) = node
            && tree::variable(&assignment.1.lhs) == Some(subject)
        {
            assigned = assigned.or(Some(assignment.1.lhs.position()));
        }
    });
    let diagnostic =
        view.problem(Code::LostAssignment, assigned?, format!("the value assigned to `{subject}` is lost"));
    Some(diagnostic.help(format!(
        "end the hook with `{subject}` to return it, or change it in place: `{subject}.messages = …`"
    )))
}

/// Returns `true` if a function may return a value.
fn returns_something(function: &Body) -> bool {
    let mut returns = false;
    tree::each(&function.statements, &mut |node, _| {
        returns |= matches!(node, Node::Stmt(Stmt::Return(Some(_), ..)));
    });
    returns
        || match function.statements.last() {
            Some(Stmt::Assignment(_) | Stmt::Var(..) | Stmt::For(..) | Stmt::While(..) | Stmt::Noop(_))
            | None => false,
            // An `if` without `else` returns nothing if the condition is false; one with `else` may return a value.
            Some(Stmt::If(flow, _)) => {
                let ends = |block: &[Stmt]| {
                    matches!(block.last(), Some(Stmt::Expr(_) | Stmt::FnCall(..) | Stmt::If(..)))
                };
                ends(flow.body.statements()) || ends(flow.branch.statements())
            }
            Some(_) => true,
        }
}

/// Reports `bump(counts, "a");` if `bump` changes its first parameter, which is a copy of the map `counts`.
fn lost_in_call(view: &View<'_>, kinds: &Kinds<'_>, node: Node<'_>) -> Option<Diagnostic> {
    let (call, position) = match node {
        Node::Stmt(Stmt::FnCall(call, position)) => (call, *position),
        Node::Stmt(Stmt::Expr(value)) => match &**value {
            Expr::FnCall(call, position) if call.op_token.is_none() => (call, *position),
            _ => return None,
        },
        _ => return None,
    };
    let called = view.functions.iter().find(|function| {
        function.name == *call.name && function.params.len() == call.args.len() && call.namespace.is_empty()
    })?;
    let is_copied = |(argument, param): (&Expr, &String)| {
        let name = tree::variable(argument)?;
        let is_own = matches!(kinds.kind_of(argument), Some(OperandKind::Array | OperandKind::Map));
        (is_own && changes(called, param)).then(|| (name.to_owned(), param.clone()))
    };
    let (name, param) = call.args.iter().zip(&called.params).find_map(is_copied)?;
    let message =
        format!("`{}` changes its own copy of `{name}`: lists and maps are passed by value", call.name);
    let help = format!("return it: end the function with `{param}`, and write `{name} = {}(…);`", call.name);
    Some(view.problem(Code::LostAssignment, position, message).help(help))
}

/// Returns `true` if a function changes the list or map in this parameter.
fn changes(function: &Body, param: &str) -> bool {
    let mut found = false;
    tree::each(&function.statements, &mut |node, _| match node {
        Node::Stmt(Stmt::Assignment(assignment)) => {
            let (root, links) = tree::chain(&assignment.1.lhs);
            found |= tree::variable(root) == Some(param) && links.len() == 1;
        }
        Node::Expr(chain @ Expr::Dot(..)) => {
            let (root, links) = tree::chain(chain);
            let is_change = matches!(&links[..], [Link::Call(call)] if CHANGING.contains(&&*call.name));
            found |= tree::variable(root) == Some(param) && is_change;
        }
        _ => {}
    });
    found
}
