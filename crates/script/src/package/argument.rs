//! Reading what a script passed: natives take whatever a script would call a number, a list or a
//! map, live or plain, and say what they got when it is something else.
//!
//! The registration of functions that do more than compute from their arguments.

use crate::call::{self, Call};
use crate::value::{Bytes, Shape, json_of, live};
use rhai::{Dynamic, EvalAltResult, FuncRegistration};
use valvehouse_json::Json;

/// An int or a float. The parameter is named so in the API reference.
pub(super) type AnyNumber = Dynamic;
/// An array, plain or live.
pub(super) type AnyArray = Dynamic;
/// A map, plain or live.
pub(super) type AnyMap = Dynamic;

/// A text, or bytes: Rhai's own blob, or what an answer or a file gave.
pub(super) type TextOrBytes = Dynamic;

/// The result of a native. Rhai's own name, which its reference generator unwraps.
pub(crate) type RhaiResultOf<T> = Result<T, Box<EvalAltResult>>;

/// The error of a native: which one and why.
pub(super) fn fail(function: &str, why: impl std::fmt::Display) -> Box<EvalAltResult> {
    crate::value::error(format!("{function}: {why}"))
}

/// The running call, for a function that needs the turn it belongs to.
pub(super) fn running(function: &str) -> RhaiResultOf<Call> {
    let outside = "cannot call this function while a file is loaded; call it in a hook, a tool or a pipe";
    call::current().ok_or_else(|| fail(function, outside))
}

/// A number as a float.
pub(super) fn float(function: &str, name: &str, value: &Dynamic) -> RhaiResultOf<f64> {
    let float = value.as_float().or_else(|_| value.as_int().map(|int| int as f64));
    float.map_err(|_| unfit(function, name, "a number", value))
}

/// A count: a whole number that is not negative.
pub(super) fn count(function: &str, name: &str, value: i64) -> RhaiResultOf<usize> {
    usize::try_from(value).map_err(|_| fail(function, format!("`{name}` must not be negative, not {value}")))
}

/// Does something with the bytes of a text or of bytes, none of which is copied. What it costs to go over them once is
/// charged.
pub(super) fn with_bytes<T>(
    function: &str,
    name: &str,
    value: &Dynamic,
    work: impl FnOnce(&[u8]) -> RhaiResultOf<T>,
) -> RhaiResultOf<T> {
    if let Ok(text) = value.as_immutable_string_ref() {
        return work(text.as_bytes());
    }
    match Bytes::of(value) {
        Some(bytes) => {
            Bytes::charge(bytes.0.len())?;
            work(&bytes.0)
        }
        None => Err(unfit(function, name, "a text or bytes", value)),
    }
}

/// The elements of a list; those of a live one stay live.
pub(super) fn items(function: &str, name: &str, value: &Dynamic) -> RhaiResultOf<Vec<Dynamic>> {
    if let Ok(array) = value.as_array_ref() {
        return Ok(array.to_vec());
    }
    match json_of(value) {
        Ok(Json::Array(array)) => Ok(array.items().iter().map(|item| live(item, Shape::Plain)).collect()),
        _ => Err(unfit(function, name, "an array", value)),
    }
}

/// The complaint about an argument of the wrong kind.
pub(super) fn unfit(function: &str, name: &str, wanted: &str, value: &Dynamic) -> Box<EvalAltResult> {
    let kind = match json_of(value) {
        Ok(Json::Null) => "()",
        Ok(json) => json.kind(),
        Err(_) if value.is_fnptr() => "a function",
        Err(_) => value.type_name(),
    };
    fail(function, format!("`{name}` must be {wanted}, not {kind}"))
}

/// A function that is called at each occurrence in a script, for any arguments. A line of the comment is a line of
/// the reference.
pub(super) fn effect(name: &str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments(comment.lines().map(|line| format!("/// {line}")))
}
