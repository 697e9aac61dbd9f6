//! The reasons a document is not read.

/// The reason a document is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    /// It is no archive, or a part of it is missing.
    #[error("the document is damaged: {0}")]
    Damaged(&'static str),
    /// It is an archive of something else.
    #[error("unknown type of document: expected DOCX, XLSX or PPTX")]
    Unknown,
    /// It is encrypted or packed in another way.
    #[error("the document is encrypted, or packed by a method other than deflate; save it without a password")]
    Packed,
    /// It unpacks to too much.
    #[error("the document exceeded its limit of {limit_mb} MiB of {what}")]
    TooLarge {
        /// The kind of content.
        what: &'static str,
        /// The limit, in MiB.
        limit_mb: usize,
    },
}
