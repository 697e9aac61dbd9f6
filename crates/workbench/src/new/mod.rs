//! `valvehouse new`: a script to begin with and a test beside it, written for it or copied from those that
//! come along.

mod options;
mod command;
mod examples;
mod index;
mod next_steps;
mod shipped;
mod scaffold;

pub use command::{run, without_project};
pub use options::{NewKind, NewOptions, ShippedFiles};
