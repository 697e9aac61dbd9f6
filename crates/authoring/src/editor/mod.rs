//! Answers an editor's queries about a script, including incomplete scripts that do not parse.
//!
//! [`Sketch`] splits a text into words and brackets, and infers from these the declarations, their scopes and their
//! kinds. Nothing is compiled or run; unknown syntax is skipped.

mod complete;
mod infer;
mod hover;
mod names;
mod outline;
mod scan;
mod suggestion;

#[cfg(test)]
mod tests;

pub use hover::{Hover, OpenCall, Place};
pub use names::NameAt;
pub use outline::{Import, Sketch, Symbol, SymbolKind};
pub use suggestion::{Suggestion, SuggestionKind};
