//! Reads the arguments of natives, which accept numbers, lists and maps in native or live form, and report the
//! actual kind of any other value.
//!
//! Also registers functions with side effects.

use rhai::{Dynamic, EvalAltResult, FuncRegistration};
use valvehouse_dialect::call::{self, Call};
use valvehouse_dialect::value::{Bytes, Shape, json_of, live};
use valvehouse_json::Json;

/// An integer or a float. The name of this type appears in the API reference.
pub(super) type AnyNumber = Dynamic;
/// An array, native or live.
pub(super) type AnyArray = Dynamic;
/// A map, native or live.
pub(super) type AnyMap = Dynamic;

/// A text or bytes: Rhai's own blob, or the content of a response or file.
pub(super) type TextOrBytes = Dynamic;

/// The result of a native. Rhai's reference generator unwraps a type of this name.
pub type RhaiResultOf<T> = Result<T, Box<EvalAltResult>>;

/// Creates the error of a native: its name and the reason.
pub(super) fn fail(function: &str, why: impl std::fmt::Display) -> Box<EvalAltResult> {
    valvehouse_dialect::value::error(format!("{function}: {why}"))
}

/// Returns the running call, for a function that needs its turn.
pub(super) fn running(function: &str) -> RhaiResultOf<Call> {
    let outside = "cannot call this function while a file is loaded; call it in a hook, a tool or a pipe";
    call::current().ok_or_else(|| fail(function, outside))
}

/// Returns a number as a float.
pub(super) fn float(function: &str, name: &str, value: &Dynamic) -> RhaiResultOf<f64> {
    let float = value.as_float().or_else(|_| value.as_int().map(|int| int as f64));
    float.map_err(|_| unfit(function, name, "a number", value))
}

/// Returns a non-negative integer.
pub(super) fn count(function: &str, name: &str, value: i64) -> RhaiResultOf<usize> {
    usize::try_from(value).map_err(|_| fail(function, format!("`{name}` must not be negative, not {value}")))
}

/// Passes the bytes of a text or of bytes to a function without copying them, and charges one pass over them.
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

/// Returns the elements of a list; those of a live list stay live.
pub(super) fn items(function: &str, name: &str, value: &Dynamic) -> RhaiResultOf<Vec<Dynamic>> {
    if let Ok(array) = value.as_array_ref() {
        return Ok(array.to_vec());
    }
    match json_of(value) {
        Ok(Json::Array(array)) => Ok(array.items().iter().map(|item| live(item, Shape::Plain)).collect()),
        _ => Err(unfit(function, name, "an array", value)),
    }
}

/// Creates the error of an argument of the wrong kind.
pub(super) fn unfit(function: &str, name: &str, expected: &str, value: &Dynamic) -> Box<EvalAltResult> {
    let kind = match json_of(value) {
        Ok(Json::Null) => "()",
        Ok(json) => json.kind(),
        Err(_) if value.is_fnptr() => "a function",
        Err(_) => value.type_name(),
    };
    fail(function, format!("`{name}` must be {expected}, not {kind}"))
}

/// Registers a function with side effects, which is called at each occurrence with any arguments. Each line of the
/// comment is a line of the reference.
pub(super) fn effect(name: &str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments(comment.lines().map(|line| format!("/// {line}")))
}
