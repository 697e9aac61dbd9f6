//! Ids of responses and of their items.

/// An id that nobody guesses: `resp_…`, `msg_…`.
pub(super) fn new_id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
}
