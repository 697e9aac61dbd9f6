//! One way to speak to each kind of database: sessions, statements with their values, rows.
//!
//! Statements are written once, in the SQL that all of them read, with `?` or `?1` for values.

mod query;
mod row;
#[cfg(feature = "postgres")]
mod server_pool;
mod session;

pub(crate) use query::{Value, insert, insert_rows, query, query_scalar, query_text};
pub(crate) use row::Row;
#[cfg(feature = "postgres")]
pub(crate) use server_pool::ServerPool;
pub(crate) use session::{Lock, Pool, Session};
