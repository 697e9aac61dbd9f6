//! `valvehouse run`: one hook of a script on a body, or a whole turn, and what that changes; what a host calls from time
//! to time.

mod action;
mod command;
pub(crate) mod body;
mod hooks;
mod scheduled;
mod target;
mod streams;
mod outcome;
mod pipes;
mod turns;

pub use command::run;
pub(crate) use hooks::once;
pub use target::{DryRunOptions, Print};
pub(crate) use target::{DryRunTarget, DryRunTurn, find, sandbox};
