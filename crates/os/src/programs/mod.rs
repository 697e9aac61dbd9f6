//! Granted programs: run without the host's environment, for a limited time, with a limited output,
//! and ended with everything they started.
//!
//! A program that runs may do what the host's user may do: the grant says which programs run, not
//! what they do. Granting `sh`, an interpreter, or a program that runs others (`git`, `find`, `make`)
//! grants all of them.

mod capture;
mod family;
mod program;
mod run;

pub use program::Command;
pub use run::{Options, Output, Programs};
