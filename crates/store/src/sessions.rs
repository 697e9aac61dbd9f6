//! The contract of stores for client sessions that any host can continue.

use crate::error::StoreFuture;

/// Sessions of clients, sealed. What has ended is not found, and is dropped when something is stored.
pub trait ClientSessions: Send + Sync {
    /// Stores a session until this time, in milliseconds since 1970, in place of the one of the same id.
    fn save_session<'a>(&'a self, id: &'a str, content: &'a str, ends_ms: i64) -> StoreFuture<'a, ()>;

    /// Returns a session that has not ended.
    fn session<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Ends a session, if there is one of this id.
    fn end_session<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;
}
