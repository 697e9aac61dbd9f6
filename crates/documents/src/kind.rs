//! The kinds of documents, and the text of each.

use super::error::DocumentError;
use super::{office, pdf};

/// A kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// DOCX, XLSX or PPTX.
    Office,
    /// A PDF file.
    Pdf,
}

impl DocumentKind {
    /// Returns the kind by the first bytes; `None` for other files.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if office::is_office(bytes) { Some(Self::Office) } else { pdf::is_pdf(bytes).then_some(Self::Pdf) }
    }

    /// Returns the text of a document. `is_stopped` is called often, and ends the reading when it returns `true`.
    ///
    /// # Errors
    /// Returns an error if the document is damaged or encrypted, has no text, exceeds a limit, or is stopped.
    pub fn text(self, bytes: &[u8], is_stopped: &dyn Fn() -> bool) -> Result<String, DocumentError> {
        match self {
            Self::Office => office::text(bytes, is_stopped),
            Self::Pdf => pdf::text(bytes, is_stopped),
        }
    }
}
