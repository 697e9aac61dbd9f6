//! The command line: a file per command.
//!
//! Results go to stdout, talk goes to stderr; every command ends with an [`Exit`].

mod questions;
mod args;
#[cfg(feature = "workbench")]
mod graphical_report;
mod exit;
mod invoke;
mod key;
mod stdin;
mod load_process;
mod log;
mod output;
mod script_files;
mod project;
mod providers;
mod remote;
mod report;
mod run;
mod running;
mod reply;
mod trace_view;

mod chat;
mod check;
mod config;
#[cfg(feature = "workbench")]
mod completions;
mod confirm;
mod definitions;
#[cfg(feature = "workbench")]
mod dev;
mod explain;
mod explain_code;
mod grant;
mod health;
mod history;
mod list;
#[cfg(feature = "workbench")]
mod lsp;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_servers;
mod new;
mod nodes;
mod release;
#[cfg(feature = "workbench")]
mod repl;
mod resume;
mod rollback;
mod runs;
mod sarif;
mod serve;
mod systemd;
mod server;
mod settings;
mod stats;
mod store;
#[cfg(feature = "workbench")]
mod test;
mod trace;
mod trial;
mod valves;

pub use exit::Exit;
pub use run::run;
