//! Stored process ids, which are meaningful on one computer only.

use crate::sql::Session;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

/// An identifier of the running kernel and the container, within which process ids are meaningful.
static HERE: LazyLock<i64> = LazyLock::new(|| {
    let kernel = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let container = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (kernel, container, std::env::var_os("HOSTNAME")).hash(&mut hasher);
    i64::from((hasher.finish() >> 33) as u32).max(1)
});

/// Returns the stored form of a process id; on a shared store, it includes [`HERE`].
pub(super) fn stored(session: &Session, pid: u32) -> i64 {
    if session.is_shared() { *HERE << 32 | i64::from(pid) } else { i64::from(pid) }
}

/// Returns a stored process id, or 0, which no process has, if it is of another computer.
pub(super) fn read(stored: i64) -> u32 {
    let place = stored >> 32;
    if place == 0 || place == *HERE { stored as u32 } else { 0 }
}
