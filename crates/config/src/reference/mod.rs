//! Every setting: described once, printed as a document, and shown as it is in force.

mod document;
mod effective;
mod table;

pub use document::document;
pub use effective::{Effective, effective};
pub use table::{SECTIONS, Section, SettingRow};

#[cfg(test)]
mod tests;
