//! The limit of all kinds of documents.

/// The maximum length of a document's text, in bytes.
pub(super) const MAX_TEXT: usize = 4 << 20;
