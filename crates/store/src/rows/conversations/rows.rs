//! Values in rows: written so that they can be read back, and read so that a broken one is named.

use crate::rows::json::encode;
use crate::sql::Row;
use valvehouse_json::{Json, MAX_DEPTH};

/// A number as databases have it: nothing that is counted here comes near the end of them.
pub(crate) fn whole_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn counted(row: &Row, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64>(column).map(i64::unsigned_abs)
}

/// A value as it is stored. What has so many levels `around` it when it is exported must still be readable.
pub(crate) fn stored(value: &Json, around: usize) -> Result<String, sqlx::Error> {
    let text = encode(value)?;
    let most = MAX_DEPTH - around;
    if depth(&text) > most {
        return Err(refused(format!("a value is nested deeper than {most} levels")));
    }
    Ok(text)
}

/// Returns the depth of the lists and objects of a JSON text.
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

/// Reads a stored value; the error names `what` is damaged.
pub(crate) fn read(what: impl FnOnce() -> String, content: &str) -> Result<Json, sqlx::Error> {
    Json::parse(content.as_bytes()).map_err(|error| {
        let cause = format!("{} is no longer valid JSON: {error}", what());
        let cause = format!("{cause}; restore the store from a backup, or forget the conversation");
        sqlx::Error::Decode(cause.into())
    })
}

/// Returns the error of a request that cannot be done, with its reason.
pub(crate) fn refused(cause: impl Into<String>) -> sqlx::Error {
    sqlx::Error::Encode(cause.into().into())
}
