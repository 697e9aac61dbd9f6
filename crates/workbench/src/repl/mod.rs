//! `valvehouse repl`: lines in the place of a script, on the plugins of the project as they are now.

mod options;
mod commands;
mod input;
mod session;
mod render;

pub use options::ReplOptions;
pub use session::run;
