//! `valvehouse run`: one hook of a script on a body, or a whole turn, and what that changes.

mod command;
pub(super) mod given;
mod hooks;
mod stage;
mod streams;
mod told;
mod turns;

pub(super) use command::run;
pub(super) use hooks::once;
pub(super) use stage::{Stage, Tried, find};
