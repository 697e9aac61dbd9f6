//! Reports texts in double quotes with placeholders.

use super::tree::{self, Node};
use super::tree::{Body, View};
use crate::diagnostic::{Code, Diagnostic};
use rhai::{Expr, Position, Stmt};
use std::collections::HashSet;

pub(super) fn look(view: &View<'_>) -> Vec<Diagnostic> {
    view.functions.iter().flat_map(|function| unfilled(view, function)).collect()
}

/// Reports `"at most ${n} words"` if `n` is a variable: double quotes do not interpolate.
fn unfilled(view: &View<'_>, function: &Body) -> Vec<Diagnostic> {
    let mut own: HashSet<String> = function.params.iter().cloned().collect();
    let mut texts: Vec<(String, Position)> = Vec::new();
    tree::each(&function.statements, &mut |node, above| match node {
        Node::Stmt(Stmt::Var(variable, ..)) => {
            own.insert(variable.0.name.to_string());
        }
        Node::Stmt(Stmt::For(parts, _)) => {
            own.insert(parts.0.name.to_string());
        }
        Node::Expr(Expr::StringConstant(text, position)) if !is_of_regex(above) => {
            texts.extend(placeholders(text).into_iter().map(|name| (name, *position)));
        }
        _ => {}
    });
    let unfilled = texts.into_iter().filter(|(name, _)| own.contains(name));
    unfilled
        .map(|(name, position)| {
            let message = format!("`${{{name}}}` is not replaced in double quotes");
            view.problem(Code::UnfilledText, position, message)
                .help("use backticks for a text with values: `Hello ${name}`")
        })
        .collect()
}

/// The replacement of a regex uses the same syntax for groups.
fn is_of_regex(above: &[Node<'_>]) -> bool {
    matches!(above.last(), Some(Node::Expr(Expr::FnCall(call, _))) if tree::module_of(call).starts_with("regex"))
}

/// Returns the names at the start of the placeholders `${name}` and `${name.field}`.
pub(super) fn placeholders(text: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let inside = text.split("${").skip(1).filter(|rest| rest.contains('}'));
    let names = inside.filter_map(|rest| rest.split(|letter| !is_part(letter)).next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
