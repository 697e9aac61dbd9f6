//! The store: durable state that hosts and commands share, in an SQL database. Each method is one transaction.
//!
//! Settings of operators, conversations and kv entries are durable when a call returns. Records that hosts
//! write continuously survive the crash of a process, but a power failure may lose the latest of them.

mod checkpoints;
mod conversations;
mod database;
mod grants;
mod guards;
mod history;
mod hosts;
mod keys;
mod kv;
mod process;
mod questions;
mod removed_plugin;
mod response_conversations;
mod responses;
mod runs;
mod script_sets;
pub(crate) mod secrets;
mod sessions;
mod settings;
mod switches;
pub(crate) mod traces;
mod transfer;
mod usage;
mod users;
mod valves;
pub(crate) mod vectors;

pub use database::Store;
