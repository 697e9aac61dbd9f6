//! Reports the final values of hooks and handlers: an unusable value, or a missing one.

use super::rule::{Rule, rules};
use super::tree::{self, Body, Link, Node, View};
use crate::declare::hooks;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::source::Kind;
use rhai::{Expr, Position, Stmt};
use valvehouse_core::filter::Hook;

rules! {
    /// V219 a filter without a hook
    ///
    /// No function in the file is called. A filter has at least one hook, offers models with `fn pipe(body)`, or has callbacks.
    ///
    /// Wrong:
    /// ```rhai
    /// const GREETING = "Hello";
    /// ```
    /// Right:
    /// ```rhai
    /// const GREETING = "Hello";
    ///
    /// fn inlet(body) {
    ///     body.messages.append_system(GREETING);
    /// }
    /// ```
    NoHook { find: without_hook }

    /// V609 an invalid return value of a hook
    ///
    /// A hook returns its own value, or nothing. The result of a function is its last expression. If that is a method call or a
    /// call of a host function, a `;` after it discards the result.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.messages.pop()
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.messages.pop();
    /// }
    /// ```
    WrongReturn { find: wrong_values }

    /// V611 a tool without a result on some paths
    ///
    /// The handler returns a value on one path and nothing on another, for which the model receives `null`.
    ///
    /// Wrong:
    /// ```rhai
    /// const parameters = #{ city: #{ type: "string", required: true } };
    ///
    /// fn handler(args) {
    ///     if args.city == "Tokyo" {
    ///         "sunny"
    ///     }
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// const parameters = #{ city: #{ type: "string", required: true } };
    ///
    /// fn handler(args) {
    ///     if args.city == "Tokyo" {
    ///         "sunny"
    ///     } else {
    ///         error("only Tokyo is known")
    ///     }
    /// }
    /// ```
    NoResult { find: without_result }
}

/// Methods and functions with side effects whose return value no hook may return.
const GIVE: [(&str, &str); 12] = [
    ("incr", "a number"),
    ("len", "a number"),
    ("count", "a number"),
    ("index_of", "a number"),
    ("pop", "the removed element"),
    ("shift", "the removed element"),
    ("contains", "true or false"),
    ("is_empty", "true or false"),
    ("starts_with", "true or false"),
    ("ends_with", "true or false"),
    ("to_upper", "a text"),
    ("to_lower", "a text"),
];

/// Reports a filter without hooks.
fn without_hook(view: &View<'_>) -> Vec<Diagnostic> {
    let Some(script) = view.script_of(Kind::Filter) else { return Vec::new() };
    let codes = [Code::AlmostHook, Code::DeadCallback];
    let is_reported = script.warnings.iter().any(|problem| codes.contains(&problem.code));
    let runs = script.hooks().next().is_some()
        || script.has_done()
        || !script.scheduled().is_empty()
        || !script.callbacks.is_empty()
        || script.pipe.is_some();
    let problem = || {
        let problem = Diagnostic::of(Code::NoHook, view.file, "the filter has no hook: it never runs");
        problem.at_byte(view.source, 0).help("write at least one hook, such as `fn inlet(body) { body }`")
    };
    Vec::from_iter((!runs && !is_reported).then(problem))
}

/// Reports the values that hooks cannot return.
fn wrong_values(view: &View<'_>) -> Vec<Diagnostic> {
    let functions = view.script_of(Kind::Filter).map_or(&[][..], |_| &view.functions);
    let hooks = functions.iter().filter_map(|one| Some((Hook::from_name(&one.name)?, &one.statements)));
    let values = hooks.flat_map(|(hook, body)| values(body).into_iter().map(move |value| (hook, value)));
    values.filter_map(|(hook, value)| wrong(view, hook, value)).collect()
}

/// Returns the possible return values of a function: the last expression of every branch, and the values of
/// `return`.
fn values(statements: &[Stmt]) -> Vec<&Expr> {
    let mut found = Vec::new();
    last_of(statements, &mut found);
    tree::each(statements, &mut |node, _| {
        if let Node::Stmt(Stmt::Return(Some(value), ..)) = node {
            found.push(value);
        }
    });
    found
}

fn last_of<'a>(statements: &'a [Stmt], found: &mut Vec<&'a Expr>) {
    match statements.last() {
        Some(Stmt::Expr(value)) => match &**value {
            Expr::Stmt(block) => last_of(block.statements(), found),
            value => found.push(value),
        },
        Some(Stmt::If(flow, _)) => {
            last_of(flow.body.statements(), found);
            last_of(flow.branch.statements(), found);
        }
        Some(Stmt::Block(block)) => last_of(block.statements(), found),
        _ => {}
    }
}

fn wrong(view: &View<'_>, hook: Hook, value: &Expr) -> Option<Diagnostic> {
    let subject = hooks::subject_name(hook);
    let is_stream = matches!(hook, Hook::Stream | Hook::StreamEnd);
    let (position, gives) = match value {
        Expr::BoolConstant(_, position) => (*position, "true or false".to_owned()),
        Expr::IntegerConstant(_, position) | Expr::FloatConstant(_, position) => {
            (*position, "a number".to_owned())
        }
        Expr::StringConstant(_, position) | Expr::InterpolatedString(_, position)
            if hook != Hook::StreamEnd =>
        {
            (*position, "a text".to_owned())
        }
        Expr::Array(_, position) if !is_stream => (*position, "a list".to_owned()),
        Expr::And(_, position) | Expr::Or(_, position) => (*position, "true or false".to_owned()),
        Expr::FnCall(call, position) if call.op_token.is_some() => {
            let comparisons = ["==", "!=", "<", ">", "<=", ">=", "!", "in"];
            (*position, comparisons.contains(&&*call.name).then_some("true or false")?.to_owned())
        }
        Expr::FnCall(call, position) if tree::module_of(call).starts_with("kv") && &*call.name == "incr" => {
            (*position, "a number".to_owned())
        }
        Expr::Dot(..) => of_chain(value, hook)?,
        _ => return None,
    };
    let problem =
        view.problem(Code::WrongReturn, position, format!("`{hook}` cannot return {gives}, its last value"));
    let is_equality =
        matches!(value, Expr::FnCall(call, _) if call.op_token.is_some() && &*call.name == "==");
    Some(problem.help(match subject {
        Some(subject) if is_equality => {
            format!("assign with a single `=`; a hook ends with `{subject}`, or without a value")
        }
        Some(subject) => {
            format!("write `{subject}` on a separate line at the end; a hook returns `{subject}` or nothing")
        }
        None => "return a text, a list of events or nothing".to_owned(),
    }))
}

/// Returns the kind of a chain such as `body.messages` or `body.messages.pop()`.
fn of_chain(value: &Expr, hook: Hook) -> Option<(Position, String)> {
    let (root, links) = tree::chain(value);
    let place = root.position();
    let is_stream = matches!(hook, Hook::Stream | Hook::StreamEnd);
    match links.last()? {
        Link::Property("messages", _) if !is_stream && links.len() == 1 => {
            Some((place, "a list of messages".to_owned()))
        }
        // The text of a message or an answer.
        Link::Property("content" | "text", _) if hook != Hook::StreamEnd && links.len() > 1 => {
            Some((place, "a text".to_owned()))
        }
        Link::Call(call) => {
            let gives = GIVE.iter().find(|(name, _)| *name == &*call.name)?.1;
            Some((place, gives.to_owned()))
        }
        _ => None,
    }
}

/// Reports a handler that returns a value on one path and nothing at its end.
fn without_result(view: &View<'_>) -> Vec<Diagnostic> {
    let functions = view.script_of(Kind::Tool).map_or(&[][..], |_| &view.functions);
    let handlers = functions.iter().filter(|function| function.name == "handler");
    handlers.filter_map(|handler| ends_without_result(view, handler)).collect()
}

fn ends_without_result(view: &View<'_>, function: &Body) -> Option<Diagnostic> {
    let mut gives = false;
    tree::each(&function.statements, &mut |node, _| {
        gives |= matches!(node, Node::Stmt(Stmt::Return(Some(_), ..)));
    });
    let last = function.statements.last()?;
    let (position, gives) = match last {
        Stmt::If(flow, position) if flow.branch.statements().is_empty() => {
            let is_value =
                matches!(flow.body.statements().last(), Some(Stmt::Expr(value)) if is_value(value));
            (*position, is_value || gives)
        }
        Stmt::Assignment(assignment) => (tree::chain(&assignment.1.lhs).0.position(), gives),
        Stmt::Var(variable, ..) => (variable.0.pos, gives),
        Stmt::For(_, position) => (*position, gives),
        _ => return None,
    };
    gives.then(|| {
        let message =
            "the handler returns a value on one path and nothing on this one: the model gets `null`";
        view.problem(Code::NoResult, position, message)
            .help("return a value on every path, or `error(\"…\")`")
    })
}

fn is_value(expression: &Expr) -> bool {
    match expression {
        Expr::Custom(..) | Expr::Unit(_) => false,
        // An operator is called for its effect.
        Expr::FnCall(call, _) => call.op_token.is_some(),
        Expr::Dot(..) => !matches!(tree::chain(expression).1.last(), Some(Link::Call(_))),
        _ => true,
    }
}
