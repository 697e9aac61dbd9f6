//! The form of `valvehouse.toml` as a JSON Schema, so that editors complete and check it.
//!
//! What each key means, its default and an example come from the table of the reference, where they stand once.

mod document;
mod file;

pub use document::schema;

#[cfg(test)]
mod tests;
