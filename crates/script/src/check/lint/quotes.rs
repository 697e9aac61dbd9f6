//! Reports texts in double quotes with placeholders.

use super::rule::{Rule, rules};
use super::tree::{self, Body, Node, View};
use crate::diagnostic::{Code, Diagnostic, Fix, Spot, quoted};
use rhai::{Expr, Position};

rules! {
    /// V612 a text without interpolation
    ///
    /// Only texts in backticks are interpolated; in double quotes `${name}` stays unchanged.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     let most = 5;
    ///     body.messages.append_system("At most ${most} words.");
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     let most = 5;
    ///     body.messages.append_system(`At most ${most} words.`);
    /// }
    /// ```
    UnfilledText { find: |view| view.in_functions(|function| unfilled(view, function)), fix: in_backticks }
}

/// Reports `"at most ${n} words"` if `n` is a variable: double quotes do not interpolate.
fn unfilled(view: &View<'_>, function: &Body) -> Vec<Diagnostic> {
    let own = function.names();
    let mut texts: Vec<(String, Position)> = Vec::new();
    tree::each(&function.statements, &mut |node, above| {
        if let Node::Expr(Expr::StringConstant(text, position)) = node
            && !is_of_regex(above)
        {
            texts.extend(placeholders(text).into_iter().map(|name| (name, *position)));
        }
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

/// Replaces the double quotes of a text with `${…}` by backticks.
fn in_backticks(spot: &Spot<'_>) -> Option<Fix> {
    let text = spot.rest();
    let length = quoted(text)?;
    let inner = &text[1..length - 1];
    if inner.contains(['`', '\\']) {
        return None;
    }
    Some(Fix::new("Write the text in backticks", spot.at..spot.at + length, format!("`{inner}`")))
}
