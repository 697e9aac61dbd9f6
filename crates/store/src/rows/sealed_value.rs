//! Values that users and operators set, sealed in a column.

use super::json::encode;
use crate::seal::{SealKey, is_sealed};
use valvehouse_json::Json;

/// Returns the subject that the valves of operators or of one user are sealed for, so that they open in no
/// other row.
pub(crate) fn valves_of(plugin: &str, user: Option<&str>) -> String {
    format!("valves {plugin:?} {user:?}")
}

/// Returns the subject that the valves in a version are sealed for.
pub(crate) fn version_of(plugin: &str, number: i64) -> String {
    format!("version {plugin:?} {number}")
}

/// Seals a value.
pub(crate) fn seal(key: &SealKey, value: &Json, about: &str) -> Result<String, sqlx::Error> {
    Ok(key.seal(&encode(value)?, about))
}

/// Opens a sealed value, or returns the reason why it cannot be opened.
pub(crate) fn unseal(key: &SealKey, content: &str, about: &str) -> Result<Json, String> {
    // A plain value was written by hand.
    let plain = match is_sealed(content) {
        true => key.open(content, about).ok_or("cannot be decrypted: they were changed by hand")?,
        false => content.to_owned(),
    };
    Json::parse(plain.as_bytes()).map_err(|error| format!("are not valid JSON: {error}"))
}
