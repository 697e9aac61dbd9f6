//! The settings as a document, and the effective ones.

mod document;
mod effective;
pub(crate) mod redaction;

pub use document::{document, schema};
pub use effective::{Effective, effective};

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
