//! The embedded store: one SQLite file, opened by as many processes as like.
//!
//! Decisions of operators, conversations and values stored by scripts are on disk when a call returns. Records that
//! hosts write continuously survive the crash of a process; a power failure may lose the latest of them.

mod aside;
mod conversations;
pub(crate) mod database;
pub(crate) mod forget;
mod grants;
mod guards;
mod history;
mod hosts;
mod kv;
mod open;
mod responses;
mod sealing;
mod store;
mod switches;
mod transaction;
mod valves;

pub use database::Sqlite;

#[cfg(test)]
mod tests;
