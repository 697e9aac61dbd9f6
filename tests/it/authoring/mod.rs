//! The commands for authors: create a script, run it, inspect it.

mod fmt;
mod new;
mod pipe;
mod port;
mod repl;
mod run;
