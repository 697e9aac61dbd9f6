//! `valvehouse run`: runs one hook of a script, a whole turn or a scheduled function, and shows the changes.

mod action;
mod command;
pub(crate) mod body;
mod hooks;
mod options;
mod scheduled;
mod target;
mod streams;
mod outcome;
mod pipes;
mod turns;

pub use command::run;
pub(crate) use hooks::once;
pub use options::DryRunOptions;
pub(crate) use target::{DryRunTarget, DryRunTurn, find, sandbox};
