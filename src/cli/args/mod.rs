//! The arguments of the command line.

mod command;
mod key;
#[cfg(feature = "workbench")]
mod port;
mod runs;
mod tooling;
mod trace;

pub(super) use command::{
    Adopt, Apply, Audit, Chat, Check, Command, Config, Confirm, Diff, Explain, Grant, Health, History,
    Invoke, Line, List, Migrate, OnOff, Pull, Release, Rollback, Store, User, Valves, ValvesDo,
};
#[cfg(feature = "workbench")]
pub(super) use command::{Format, Global};
#[cfg(feature = "mcp")]
pub(super) use command::{Mcp, McpCommand};
pub(super) use key::{Key, KeyAction, KeyRole, RightsOfKey, Usage};
#[cfg(feature = "workbench")]
pub(super) use port::Port;
pub(super) use runs::{Resume, Runs, RunsDo};
#[cfg(feature = "workbench")]
pub(super) use tooling::Completions;
pub(super) use tooling::Definitions;
pub(super) use trace::Trace;
