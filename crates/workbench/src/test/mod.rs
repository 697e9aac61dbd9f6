//! `valvehouse test`: runs the tests beside scripts.

mod options;
mod command;
mod coverage;
mod discovery;
mod json_report;
mod junit;
mod runner;
mod summary;

pub use command::run;
pub(crate) use discovery::Found;
pub(crate) use json_report::told;
pub use options::TestOptions;
pub(crate) use runner::{FileRan, How, Sum, running};
pub(crate) use summary::Shown;
