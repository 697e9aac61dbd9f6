//! Values in rows: written so that they can be read back, and read so that a broken one is named.

use crate::sqlite::transaction::encode;
use sqlx::Row as _;
use valvehouse_json::{Json, MAX_DEPTH};

/// A number as SQLite has it: nothing that is counted here comes near the end of them.
pub(super) fn whole_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn counted(row: &sqlx::sqlite::SqliteRow, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64, _>(column).map(i64::unsigned_abs)
}

/// A value as it is stored. What has so many levels `around` it when it is exported must still be readable.
pub(super) fn stored(value: &Json, around: usize) -> Result<String, sqlx::Error> {
    let text = encode(value)?;
    let most = MAX_DEPTH - around;
    if depth(&text) > most {
        return Err(refused(format!("a value is nested deeper than {most} levels")));
    }
    Ok(text)
}

/// How deep the lists and objects of a JSON text are nested.
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

/// A stored value; where somebody broke it, `what` it is.
pub(super) fn read(what: impl FnOnce() -> String, content: &str) -> Result<Json, sqlx::Error> {
    Json::parse(content.as_bytes()).map_err(|error| {
        let cause = format!("{} is no JSON any more: {error}", what());
        let cause = format!("{cause}; restore the store from a backup, or forget the conversation");
        sqlx::Error::Decode(cause.into())
    })
}

/// What is asked for cannot be done, and why.
pub(super) fn refused(cause: impl Into<String>) -> sqlx::Error {
    sqlx::Error::Encode(cause.into().into())
}
