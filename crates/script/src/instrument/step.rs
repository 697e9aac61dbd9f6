//! The steps of the host's: expressions of Rhai's "custom syntax", by the names of theirs.

use rhai::{CustomExpr, Dynamic, Expr, Position};

/// Marks a line.
pub(super) const PROBE: &str = "probe";
/// Remembers variables that become shared.
pub(super) const CAPTURE: &str = "capture";
/// Measures what a `switch` looks at.
pub(super) const SUBJECT: &str = "subject";
/// Compares two values by order.
pub(super) const COMPARE: &str = "compare";
/// Prepares what `+=` adds.
pub(super) const ADDED: &str = "added";

/// One step, with what it is given.
pub(super) fn custom(step: &'static str, inputs: impl IntoIterator<Item = Expr>) -> Expr {
    custom_at(step, inputs, Dynamic::UNIT, Position::NONE)
}

/// One step at a place of the script, with a state of its own.
pub(super) fn custom_at(
    step: &'static str,
    inputs: impl IntoIterator<Item = Expr>,
    state: Dynamic,
    position: Position,
) -> Expr {
    let custom = CustomExpr {
        inputs: inputs.into_iter().collect(),
        tokens: [step.into()].into_iter().collect(),
        state,
        scope_may_be_changed: false,
        self_terminated: false,
    };
    Expr::Custom(custom.into(), position)
}
