//! The reference of scripts as a page, and as definition files of editors.

mod definition;
mod document;
mod theme;

#[cfg(test)]
mod tests;

pub use definition::definitions;
pub use document::document;
pub use theme::about_module;
