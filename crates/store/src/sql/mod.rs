//! A common interface to the databases: sessions, statements with parameters, and rows.
//!
//! Each statement is written once, in the SQL that all databases accept, with the parameters `?` or `?1`.

mod query;
mod row;
#[cfg(feature = "postgres")]
mod server_pool;
mod session;

pub(crate) use query::{Query, Value, insert, insert_rows, query, query_text, values};
pub(crate) use row::{Row, columns};
#[cfg(feature = "postgres")]
pub(crate) use server_pool::ServerPool;
pub(crate) use session::{Lock, Pool, Session};
