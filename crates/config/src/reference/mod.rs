//! The settings: declared once, and used for reading, the document, the JSON Schema and the effective values.

mod document;
mod effective;
mod form;
mod redaction;
mod schema;
mod table;
mod values;

pub use document::document;
pub use effective::{Effective, effective};
pub(crate) use form::Form;
pub use schema::schema;
#[cfg(test)]
pub(crate) use table::SECTIONS;
pub(crate) use table::{SettingRow, row};
pub(crate) use values::Values;

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
