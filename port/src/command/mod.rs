//! The command line of `valvehouse-port`.
//!
//! Results are written to stdout, messages to stderr. Every command ends with an [`Exit`](output::Exit).

mod arguments;
mod files;
mod host;
mod measure;
mod output;
mod run;
mod summary;

pub(crate) use run::run;
