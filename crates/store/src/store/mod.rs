//! The store: durable state that hosts and commands share, in an SQL database. Each method is one transaction.
//!
//! Settings of operators, conversations and kv entries are durable when a call returns. Records that hosts
//! write continuously survive the crash of a process, but a power failure may lose the latest of them.

mod conversations;
mod history;
mod database;
mod questions;
mod responses;
mod script_sets;
mod sessions;
mod state;
mod vectors;

pub use database::Store;
