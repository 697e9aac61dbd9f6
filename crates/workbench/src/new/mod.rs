//! `valvehouse new`: creates a script and its test, from a template or from a shipped script.

mod command;
mod examples;
mod next_steps;
mod options;
mod scaffold;

pub use command::{run, without_project};
pub use options::NewOptions;
pub use scaffold::ShippedFiles;
