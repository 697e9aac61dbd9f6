//! `valvehouse lsp`: a language server for scripts, spoken to over stdin and stdout.
//!
//! It reports the problems that `check` finds, with the fixes of [`valvehouse_script::fix`]. [`valvehouse_script::editor`]
//! reads everything else from the text, so that it also works while the text does not parse.

mod actions;
mod capabilities;
mod diagnostics;
mod document;
mod lenses;
mod names;
mod responses;
mod session;

pub use session::run;
