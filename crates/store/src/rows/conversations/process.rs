//! The number of a process, which means something on its own machine only.

use crate::sql::Session;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

/// The place where a number of a process means this one: the kernel that runs, and the container within it.
static HERE: LazyLock<i64> = LazyLock::new(|| {
    let kernel = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let container = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (kernel, container, std::env::var_os("HOSTNAME")).hash(&mut hasher);
    i64::from((hasher.finish() >> 33) as u32).max(1)
});

/// Returns a number as it is stored: where other machines read it, together with its place.
pub(super) fn stored(session: &Session, pid: u32) -> i64 {
    if session.is_shared() { *HERE << 32 | i64::from(pid) } else { i64::from(pid) }
}

/// Returns a number that was stored, and 0, which is nobody's, for one of another machine.
pub(super) fn read(stored: i64) -> u32 {
    let place = stored >> 32;
    if place == 0 || place == *HERE { stored as u32 } else { 0 }
}
