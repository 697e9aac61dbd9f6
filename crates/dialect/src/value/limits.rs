//! The limits of the values that scripts create.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum length of a string that a script may read or build, in bytes: `server.max_text_mb`.
static MAX_TEXT: AtomicUsize = AtomicUsize::new(4 << 20);
/// The maximum number of elements of an array.
pub const ARRAY: usize = 100_000;
/// The maximum number of keys of a map.
pub(crate) const MAP: usize = 10_000;

/// Returns the maximum length of a string that a script may read or build, in bytes.
pub fn max_text() -> usize {
    MAX_TEXT.load(Ordering::Relaxed)
}

/// Sets the maximum length of a string, in bytes, for scripts that are compiled from now on.
pub fn set_max_text(bytes: usize) {
    MAX_TEXT.store(bytes, Ordering::Relaxed);
}
