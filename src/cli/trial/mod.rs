//! `valvehouse run`: one hook of a script on a body, or a whole turn, and what that changes.

mod command;
pub(super) mod body;
mod hooks;
mod stage;
mod streams;
mod outcome;
mod turns;

pub(super) use command::run;
pub(super) use hooks::once;
pub(super) use stage::{Stage, Tried, find};
