//! The limit of all kinds of documents.

use super::error::DocumentError;

/// The maximum length of a document's text, in bytes.
pub(super) const MAX_TEXT: usize = 4 << 20;

/// Checks the length of a text.
///
/// # Errors
/// Returns an error if the text is longer than the limit.
pub(super) fn bounded(text: &str) -> Result<(), DocumentError> {
    match text.len() > MAX_TEXT {
        true => Err(DocumentError::TooLarge { what: "text", limit_mb: MAX_TEXT >> 20 }),
        false => Ok(()),
    }
}
