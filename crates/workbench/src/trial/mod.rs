//! `valvehouse run`: one hook of a script on a body, or a whole turn, and what that changes; what a host calls from time
//! to time.

mod command;
pub(crate) mod body;
mod hooks;
mod scheduled;
mod stage;
mod streams;
mod outcome;
mod turns;

pub use command::run;
pub(crate) use hooks::once;
pub use stage::{Print, TrialOptions};
pub(crate) use stage::{Stage, TrialTurn, find, sandbox};
