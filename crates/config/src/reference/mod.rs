//! The settings as a document, and the effective ones.

mod document;
mod effective;
mod redaction;

pub use document::{document, schema};
pub use effective::{Effective, effective};
pub(crate) use redaction::command;

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
