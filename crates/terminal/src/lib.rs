//! The parts that the commands of Valvehouse share: their end, what they write, and what they ask a person.
//!
//! Results go to stdout, talk goes to stderr; every command ends with an [`Exit`] or a [`CommandError`].

mod access_line;
mod exit;
#[cfg(feature = "drawn")]
mod graphical_report;
mod output;
mod overview;

pub mod files;
pub mod questions;
pub mod report;
pub mod trace_view;

pub use exit::{CommandError, Exit};
pub use output::{Console, Format, Log, PLAIN, Paint, Quiet, clean, table, timestamp};
pub use overview::{check_valve, contents, first_request, key_value, plugin_problems};
pub use questions::StdinLines;
pub use report::{Case, ScriptPlace, case};
