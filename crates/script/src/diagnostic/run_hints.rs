//! Hints for run-time errors, for code that works in Python or JavaScript.

use super::functions;
use rhai::EvalAltResult;
use valvehouse_dialect::answer::operands;
use valvehouse_script_std::reference::{self, Function};

/// Returns the way to do what an operator does for values of these kinds in other languages.
fn help_for_operator((operator, [first, second]): (&str, [&str; 2])) -> &'static str {
    match (operator, first, second) {
        ("+", "array", _) => "append one value with `list.push(value)`, or a list with `list + [value]`",
        ("+", "map", _) | ("|", "map", "map") => "add the keys of another map with `map + other`",
        ("-", "array", _) => "keep the other values: `list.filter(|one| one != value)`",
        ("*", "string", _) | ("*", _, "string") => {
            "repeat a text with `pad`: `let line = \"\"; line.pad(20, \"-\");`; a text of digits becomes a number by \
             `parse_int(text)`"
        }
        ("-", "string", _) | (_, "string", "integer" | "float") | (_, "integer" | "float", "string") => {
            "convert the text to a number first: `parse_int(text)` or `parse_float(text)`"
        }
        (_, "bool", _) | (_, _, "bool") => "choose a number: `if value { 1 } else { 0 }`",
        _ => "convert one of the values, such as with `parse_int(text)` or `to_string(value)`",
    }
}

/// Returns the hint for a run-time error.
pub(crate) fn help_for_run(error: &EvalAltResult) -> Option<&'static str> {
    match error {
        EvalAltResult::ErrorFunctionNotFound(signature, _) => {
            let (name, kinds) = signature.split_once(" (").unwrap_or((signature, ""));
            if kinds.starts_with("()") && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
            {
                return Some(
                    "the first value is `()`: a key or variable has no value; write `?.` to call only on a \
                     value, or `a ?? b` for a default",
                );
            }
            match name {
                _ if kinds.split(", ").any(|kind| kind.trim_end_matches(')') == "(") => {
                    Some("one of the values is `()`; write a default with `??`, such as `value ?? 0`")
                }
                _ => functions::function(name).or_else(|| operands(signature).map(help_for_operator)),
            }
        }
        EvalAltResult::ErrorFor(_) => Some(
            "the value after `in` must be a list, map, text or range; write `for x in list ?? []` if it may \
             be `()`",
        ),
        EvalAltResult::ErrorIndexingType(text, _) if text.starts_with("() [") => {
            Some("the value before `[` is `()`; write `?[` to get `()` instead of the error")
        }
        EvalAltResult::ErrorMismatchDataType(expected, ..) if expected == "bool" => {
            Some("compare it: `if x != () {`, `if x != \"\" {`, or `if !empty(x) {`")
        }
        EvalAltResult::ErrorDataRace(..) => Some(
            "the closure uses the variable at the start of its chain; assign the start to a variable first: \
             `let keys = map.keys(); keys.map(|key| map[key])`",
        ),
        EvalAltResult::ErrorDotExpr(text, _) if text.ends_with("for type '()'") => {
            Some("the value before `.` is `()`; write `?.` to get `()` instead of the error")
        }
        EvalAltResult::ErrorDotExpr(text, _) if text.contains("for type '()' to handle") => {
            Some("the value before the last `.` is `()`; set it first, or use `ensure(path, #{})`")
        }
        EvalAltResult::ErrorDotExpr(text, _) if text.starts_with("Unknown property '") => {
            functions::function(text.split('\'').nth(1)?)
        }
        _ => None,
    }
}

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
