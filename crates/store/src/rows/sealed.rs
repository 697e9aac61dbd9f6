//! Values that people set, as they are sealed in a column.

use super::json::encode;
use crate::seal::{SealKey, is_sealed};
use valvehouse_json::Json;

/// Returns the subject of a value, so that it opens nowhere else: the operators' or one user's valves of a
/// plugin,
pub(crate) fn valves_of(plugin: &str, user: Option<&str>) -> String {
    format!("valves {plugin:?} {user:?}")
}

/// or those of a version of it.
pub(crate) fn version_of(plugin: &str, number: i64) -> String {
    format!("version {plugin:?} {number}")
}

/// A value as it is written.
pub(crate) fn seal(key: &SealKey, value: &Json, about: &str) -> Result<String, sqlx::Error> {
    Ok(key.seal(&encode(value)?, about))
}

/// A value as it was written; why not, where it does not open.
pub(crate) fn unseal(key: &SealKey, content: &str, about: &str) -> Result<Json, String> {
    // Somebody's own hand may have put it there in plain words.
    let plain = match is_sealed(content) {
        true => key.open(content, about).ok_or("cannot be decrypted: they were changed by hand")?,
        false => content.to_owned(),
    };
    Json::parse(plain.as_bytes()).map_err(|error| format!("are not valid JSON: {error}"))
}
