//! Ids and times.

use std::time::{SystemTime, UNIX_EPOCH};

/// Creates an unguessable id such as `resp_…` or `msg_…`.
pub fn new_id(prefix: &str) -> String {
    let random = uuid::Uuid::new_v4().simple();
    [prefix, "_", random.encode_lower(&mut uuid::Uuid::encode_buffer())].concat()
}

/// Returns the time in Unix seconds.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
