//! The clock of the store.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970; 0 for a clock before that.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
