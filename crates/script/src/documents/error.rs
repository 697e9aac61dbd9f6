//! The reasons why a document cannot be read.

/// The reason why a document cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    /// The archive or a part of it is damaged.
    #[error("the document is damaged: {0}")]
    Damaged(&'static str),
    /// The archive is not an office document.
    #[error("unknown type of document: expected DOCX, XLSX or PPTX")]
    Unknown,
    /// The archive is encrypted or packed by an unsupported method.
    #[error(
        "the document is encrypted, or packed by a method other than deflate; save it without a password"
    )]
    Packed,
    /// The content exceeds a limit.
    #[error("the document exceeded its limit of {limit_mb} MiB of {what}")]
    TooLarge {
        /// The kind of content.
        what: &'static str,
        /// The limit, in MiB.
        limit_mb: usize,
    },
}
