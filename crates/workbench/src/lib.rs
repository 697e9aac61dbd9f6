//! The tools of those who write scripts: each module is a command, without its arguments' parsing.

pub mod dev;
pub mod fmt;
pub mod lsp;
pub mod new;
pub mod repl;
pub mod test;
pub mod dry_run;
