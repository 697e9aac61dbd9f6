//! Client sessions that any host of the store can continue.

use crate::error::StoreFuture;

/// Client sessions, sealed. Expired ones are not returned, and are deleted by later writes.
pub trait ClientSessions: Send + Sync {
    /// Stores a session, replacing one with the same id. It expires at a time in milliseconds since 1970.
    fn save_session<'a>(&'a self, id: &'a str, content: &'a str, ends_ms: i64) -> StoreFuture<'a, ()>;

    /// Returns a session that has not expired.
    fn session<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Deletes the session with this id, if any.
    fn end_session<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;
}
