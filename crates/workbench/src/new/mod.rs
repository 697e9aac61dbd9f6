//! `valvehouse new`: a script to begin with and a test beside it, written for it or copied from those that
//! come along.

mod command;
mod examples;
mod next_steps;
mod scaffold;

pub use command::{run, without_project};
pub use scaffold::{NewKind, NewOptions, ShippedFiles};
