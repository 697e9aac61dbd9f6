//! `valvehouse lsp`: a language server for scripts, spoken to over stdin and stdout.
//!
//! What is wrong with a script is what `check` says, with the fixes of [`valvehouse_script::fix`]; everything else is read
//! from its text by [`valvehouse_script::editor`], so that it also works while the text does not parse.

mod actions;
mod capabilities;
mod diagnostics;
mod document;
mod lenses;
mod names;
mod responses;
mod session;

pub use session::run;
