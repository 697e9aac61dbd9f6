//! The layout of a script's text: indentation, blanks between tokens and blank lines.
//!
//! [`format()`] moves tokens and never changes one: lines stay lines, comments and texts keep their bytes. Each line is
//! indented by four blanks for the bracket that it stands in, and by four more where it goes on with an expression;
//! several blank lines become one. The layout of a formatted text is the text itself.

mod layout;
mod lexeme;
mod spacing;

#[cfg(test)]
mod tests;

pub use layout::{FormatError, format};
