//! `valvehouse repl`: lines in the place of a script, on the plugins of the project as they are now.

mod commands;
mod input;
mod session;
mod render;

pub use session::{ReplOptions, run};
