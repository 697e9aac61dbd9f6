//! The registration of functions that do more than compute from their arguments.

use rhai::FuncRegistration;

/// A function that is called each time it stands in a script, whatever its arguments. A line of the comment is a line of
/// the reference.
pub(super) fn effect(name: &str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments(comment.lines().map(|line| format!("/// {line}")))
}
