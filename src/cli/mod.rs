//! The command line: a file per command.
//!
//! Results go to stdout, talk goes to stderr; every command ends with an [`Exit`].

mod answering;
mod args;
mod descriptors;
mod exit;
mod invoke;
mod lines;
mod output;
mod project;
mod providers;
mod report;
mod run;
mod spoken;
mod trace;

mod chat;
mod check;
mod confirm_removal;
mod explain;
mod grant;
mod list;
mod resume;
mod runs;
mod serve;
mod stats;
mod valves;

pub use exit::Exit;
pub use run::run;
