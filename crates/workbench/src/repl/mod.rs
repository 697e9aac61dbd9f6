//! `valvehouse repl`: evaluates lines as if they were in a script, with the current plugins of the project.

mod commands;
mod input;
mod session;
mod render;

pub use session::{ReplOptions, run};
