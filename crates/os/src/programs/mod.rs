//! Granted programs: run without the host's environment, with limited time and output, and killed together
//! with all processes that they started.
//!
//! A running program may do everything that the host's user may do: the grant selects programs, not their
//! actions. Granting `sh`, an interpreter, or a program that runs others (`git`, `find`, `make`) grants all
//! programs.

mod capture;
mod family;
mod program;
mod run;

pub use program::Command;
pub use run::{Options, Output, Programs};
