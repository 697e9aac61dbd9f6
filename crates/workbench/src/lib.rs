//! The tools for script authors. Each module is a command with its options.

pub mod dev;
pub mod fmt;
pub mod lsp;
pub mod new;
pub mod repl;
pub mod test;
pub mod dry_run;
