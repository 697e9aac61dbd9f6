//! The contracts of stores over an SQL database, each method one transaction on the rows of its kind.
//!
//! Decisions of operators, conversations and values stored by scripts are on disk when a call returns. Records that
//! hosts write continuously survive the crash of a process; a power failure may lose the latest of them.

mod conversations;
mod history;
mod database;
mod questions;
mod responses;
mod script_sets;
mod sessions;
mod state;
mod vectors;

pub use database::SqlStore;
