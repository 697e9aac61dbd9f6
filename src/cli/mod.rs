//! The command line, with a file per command.
//!
//! Results are written to stdout, messages to stderr. Every command ends with an [`Exit`].

mod args;
mod invoke;
mod key;
mod listener;
mod load_process;
mod log;
mod problem_codes;
mod project;
mod providers;
mod remote;
mod run;
mod script_folder;
mod running;
mod reply;

mod apply;
mod chat;
mod check;
mod config;
#[cfg(feature = "workbench")]
mod completions;
mod confirm;
mod definitions;
mod explain;
mod grant;
mod health;
mod history;
mod list;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_servers;
mod migrate;
mod nodes;
#[cfg(feature = "workbench")]
mod port;
mod pull;
mod release;
mod resume;
mod rollback;
mod runs;
mod sarif;
mod serve;
mod services;
mod systemd;
mod server;
mod settings;
mod stats;
mod store;
mod trace;
mod usage;
mod user;
mod valves;

pub use listener::take_sockets;
pub use run::run;
pub use valvehouse_terminal::Exit;
