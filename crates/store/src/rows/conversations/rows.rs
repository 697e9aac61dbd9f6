//! Conversions between values and columns. Errors name the damaged value.

use crate::rows::json::encode;
use crate::sql::Row;
use valvehouse_json::{Json, MAX_DEPTH};

/// Returns a number as databases store it; no count comes near the limit.
pub(crate) fn whole_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn counted(row: &Row, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64>(column).map(i64::unsigned_abs)
}

/// Encodes a value. It is rejected if it could not be parsed again with `around` more nesting levels in an
/// export.
pub(crate) fn stored(value: &Json, around: usize) -> Result<String, sqlx::Error> {
    let text = encode(value)?;
    let most = MAX_DEPTH - around;
    if depth(&text) > most {
        return Err(refused(format!("a value is nested deeper than {most} levels")));
    }
    Ok(text)
}

/// Returns the nesting depth of a JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Parses a stored value; `what` describes it in the error.
pub(crate) fn read(what: impl FnOnce() -> String, content: &str) -> Result<Json, sqlx::Error> {
    Json::parse(content.as_bytes()).map_err(|error| {
        let cause = format!("{} is no longer valid JSON: {error}", what());
        let cause = format!("{cause}; restore the store from a backup, or forget the conversation");
        sqlx::Error::Decode(cause.into())
    })
}

/// Returns the error for a request that cannot be executed, with its reason.
pub(crate) fn refused(cause: impl Into<String>) -> sqlx::Error {
    sqlx::Error::Encode(cause.into().into())
}
