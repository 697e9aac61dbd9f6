//! Every setting: declared once, read, printed as a document and as a JSON Schema, and shown as it is in force.

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
