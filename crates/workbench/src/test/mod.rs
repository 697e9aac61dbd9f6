//! `valvehouse test`: runs the tests of scripts.

mod command;
mod coverage;
mod discovery;
mod json_report;
mod junit;
mod runner;
mod summary;

pub use command::run;
pub(crate) use discovery::TestSelection;
pub(crate) use json_report::report_json;
pub use runner::TestOptions;
pub(crate) use runner::{FileRan, Sum, running};
pub(crate) use summary::SummaryStyle;
