//! JSON values in text columns.

use valvehouse_json::Json;

/// The maximum number of rows per statement.
pub(super) const AT_ONCE: usize = 64;

pub(crate) fn encode(value: &Json) -> Result<String, sqlx::Error> {
    let bytes = value.encode().map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}
