//! The parsers of `KEY=VALUE` arguments.

use valvehouse_json::Json;

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// Reads `KEY=JSON`; a value that is not valid JSON is a text.
pub(super) fn value(text: &str) -> Result<(String, Json), String> {
    let (key, value) = pair(text)?;
    let value = Json::parse(value.as_bytes()).unwrap_or_else(|_| value.as_str().into());
    Ok((key, value))
}
