//! Extracts the text of office documents: DOCX, XLSX and PPTX, which are ZIP archives of XML files.
//!
//! Documents are untrusted, so every step is limited: the number of files, their unpacked size, and the text.

mod archive;
mod error;
mod markup;
mod office;

pub(crate) use office::{is_office, text};
