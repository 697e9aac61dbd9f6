//! The arguments of the command line.

mod command;
#[cfg(feature = "workbench")]
mod dev;
mod new;
mod pair;
mod runs;
mod tooling;
mod trace;
mod trial;

pub(super) use command::{
    Adopt, Chat, Check, Command, Config, Confirm, Explain, Format, Global, Grant, Health, History, Invoke,
    Key, Line, List, Release, Rollback, Store, Valves,
};
#[cfg(feature = "mcp")]
pub(super) use command::{Mcp, McpCommand};
#[cfg(feature = "workbench")]
pub(super) use dev::{Dev, Models, Open};
pub(super) use new::{New, Place, What};
pub(super) use runs::{Resume, Runs, RunsDo};
#[cfg(feature = "workbench")]
pub(super) use tooling::{Completions, Repl, Test};
pub(super) use tooling::{Definitions, ExplainCode};
pub(super) use trace::Trace;
pub(super) use trial::{Print, Run};
