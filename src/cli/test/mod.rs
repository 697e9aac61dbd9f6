//! `valvehouse test`: runs the tests beside scripts.

mod command;
mod coverage;
mod discovery;
mod json_report;
mod junit;
mod runner;
mod summary;

pub(super) use command::run;
pub(super) use discovery::Found;
pub(super) use json_report::told;
pub(super) use runner::{FileRan, How, Sum, running};
pub(super) use summary::Shown;
