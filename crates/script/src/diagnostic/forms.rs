//! The overloads of a function that was called with values of other kinds.

use crate::reference::{self, Function};
use rhai::EvalAltResult;

/// The maximum number of overloads that are shown.
const MAX_FORMS: usize = 3;

/// Returns a hint with the overloads of a function that have as many parameters as a failed call has arguments.
pub(super) fn fitting(error: &EvalAltResult) -> Option<String> {
    let EvalAltResult::ErrorFunctionNotFound(signature, _) = error else { return None };
    let (name, kinds) = signature.split_once(" (")?;
    let kinds = kinds.strip_suffix(')').filter(|kinds| !kinds.is_empty());
    let count = kinds.map_or(0, |kinds| kinds.split(", ").count());
    let known = reference::functions().iter();
    let known =
        known.filter(|known| known.name == name && known.module.is_empty() && known.params.len() == count);
    let mut forms: Vec<String> = known.map(Function::signature).collect();
    forms.dedup();
    forms.truncate(MAX_FORMS);
    (!forms.is_empty()).then(|| format!("invalid types of the values: `{}`", forms.join("`, `")))
}
