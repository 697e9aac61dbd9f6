//! Extracts the text of documents: DOCX, XLSX and PPTX, which are ZIP archives of XML files, and PDF.
//!
//! Documents are untrusted, so every step is limited: the number of files, their unpacked size, and the text.

mod archive;
mod error;
mod kind;
mod limits;
mod markup;
mod office;
mod pdf;

pub use error::DocumentError;
pub use kind::DocumentKind;
