//! The text of office documents: DOCX, XLSX and PPTX, which are ZIP archives of XML files.
//!
//! Every step is bounded: the files of an archive, the bytes that they unpack to, and the text. Documents come from
//! strangers.

mod archive;
mod error;
mod markup;
mod office;

pub(crate) use office::{is_office, text};
