//! `valvehouse lsp`: a language server for scripts, which communicates over stdin and stdout.
//!
//! It reports the problems that `check` finds, with the fixes of [`valvehouse_authoring::fix`]. Everything else
//! is read by [`valvehouse_authoring::editor`], which also works for a text that does not parse.

mod actions;
mod capabilities;
mod diagnostics;
mod document;
mod lenses;
mod names;
mod responses;
mod session;

pub use session::run;
