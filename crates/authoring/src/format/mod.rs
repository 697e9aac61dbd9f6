//! The layout of a script's text: indentation, blanks between tokens, and blank lines.
//!
//! [`format()`] moves tokens and never changes them: line breaks remain, and comments and texts keep their bytes.
//! Each line is indented by four blanks for the enclosing bracket, and by four more if it continues an expression;
//! several blank lines become one. Formatting a formatted text does not change it.

mod layout;
mod lexeme;
mod spacing;

#[cfg(test)]
mod tests;

pub use layout::{FormatError, format};
