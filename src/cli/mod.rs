//! The command line: a file per command.
//!
//! Results go to stdout, talk goes to stderr; every command ends with an [`Exit`].

mod answering;
mod args;
mod descriptors;
mod exit;
mod invoke;
mod key;
mod lines;
mod log;
mod output;
mod project;
mod providers;
mod remote;
mod report;
mod run;
mod spoken;
mod steps;

mod chat;
mod check;
mod config;
mod confirm_removal;
mod explain;
mod grant;
mod history;
mod list;
mod resume;
mod rollback;
mod runs;
mod serve;
mod service;
mod stats;
mod store;
mod trace;
mod valves;

pub use exit::Exit;
pub use run::run;
