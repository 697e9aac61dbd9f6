//! The overloads of a function that was called with values of other kinds.

use rhai::EvalAltResult;
use valvehouse_script_std::reference::{self, Function};

/// The maximum number of overloads that are shown.
const MAX_FORMS: usize = 3;

/// Returns a hint for a call of a parameter that holds a function, such as the emitter of events.
pub(super) fn call_of_parameter(error: &EvalAltResult, source: &str) -> Option<String> {
    let EvalAltResult::ErrorFunctionNotFound(signature, _) = error else { return None };
    let name = signature.split(" (").next()?;
    let lists = source.split("fn ").skip(1).filter_map(|rest| rest.split_once('(')?.1.split(')').next());
    let is_parameter = lists.flat_map(|list| list.split(',')).any(|parameter| parameter.trim() == name);
    is_parameter
        .then(|| format!("`{name}` is a parameter: call the function that it holds with `{name}.call(…)`"))
}

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
