//! The reasons why a document cannot be read.

/// The reason why a document cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The archive or a part of it is damaged.
    #[error("the document is damaged: {0}")]
    Damaged(&'static str),
    /// The archive is not an office document.
    #[error("unknown type of document: expected DOCX, XLSX, PPTX or PDF")]
    Unknown,
    /// The archive is encrypted or packed by an unsupported method.
    #[error(
        "the document is encrypted, or packed by a method other than deflate; save it without a password"
    )]
    Packed,
    /// The document is encrypted.
    #[error("the document is encrypted; save it without a password")]
    Encrypted,
    /// No page shows text.
    #[error(
        "the document has no text: its pages are images, as of a scan; recognize the text with another program, or \
         send the file to a model that reads files"
    )]
    NoText,
    /// All text uses fonts that do not map their glyphs to letters.
    #[error(
        "the document has no readable text: its fonts do not say which letters they show; send the file to a model \
         that reads files"
    )]
    NoLetters,
    /// The content exceeds a limit.
    #[error("the document exceeded its limit of {limit_mb} MiB of {what}")]
    TooLarge {
        /// The kind of content.
        what: &'static str,
        /// The limit, in MiB.
        limit_mb: usize,
    },
    /// The content has too many parts.
    #[error("the document exceeded its limit of {limit} {what}")]
    TooMany {
        /// The kind of parts.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The call that needs the text has ended.
    #[error("the reading was stopped")]
    Stopped,
}

impl DocumentError {
    /// Continues without a damaged part.
    ///
    /// # Errors
    /// Returns every error except [`DocumentError::Damaged`].
    pub(crate) fn skip_damage<T: Default>(result: Result<T, Self>) -> Result<T, Self> {
        match result {
            Err(Self::Damaged(_)) => Ok(T::default()),
            result => result,
        }
    }
}
