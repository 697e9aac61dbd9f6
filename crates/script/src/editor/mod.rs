//! Answers to an editor's questions about a script, also while it is being written and does not parse.
//!
//! [`Sketch`] takes a text apart into words and brackets, and guesses from these what is declared where and of
//! what kind it is. Nothing is compiled or run; what is not understood is passed over.

mod complete;
mod infer;
mod look;
mod names;
mod outline;
mod scan;
mod suggestion;

#[cfg(test)]
mod tests;

pub use look::{Hover, OpenCall, Place};
pub use names::NameAt;
pub use outline::{Import, Sketch, Symbol, SymbolKind};
pub use suggestion::{Suggestion, SuggestionKind};
