//! The parser of `KEY=VALUE` arguments.

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}
