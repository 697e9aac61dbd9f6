//! The time that a thread ran without an interruption.

use std::cell::Cell;
use std::time::{Duration, Instant};

pub(super) const IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "macos"));

/// Time that passed for this thread, without what it had to wait for a processor: that of the
/// processor itself, and what the thread slept of its own accord. (A script that races with itself
/// for a shared value is put to sleep by the interpreter, again and again.) Where only the
/// processor's time is known, that. Only differences mean anything.
pub(super) fn time_of_this_thread() -> Option<Duration> {
    on_processor_or_asleep().or_else(processor_time)
}

thread_local! {
    /// The tick of the last reading of `processor_time` for a call that begins, and that reading.
    static LAST: Cell<(u64, Option<Duration>)> = const { Cell::new((u64::MAX, None)) };
}

/// Returns the processor time of this thread as of this tick or a moment before, and whether it was read just now: it
/// is once a tick.
pub(super) fn at_tick(tick: u64) -> (Option<Duration>, bool) {
    let (last, time) = LAST.get();
    if last == tick {
        return (time, false);
    }
    let time = processor_time();
    LAST.set((tick, time));
    (time, true)
}

#[cfg(target_os = "linux")]
fn on_processor_or_asleep() -> Option<Duration> {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    // Nanoseconds on a processor, nanoseconds ready and waiting for one, turns.
    let metrics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let waited = metrics.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)?;
    // A thread may have waited before anybody asked for the time: never below zero.
    let passed = START.get_or_init(Instant::now).elapsed() + Duration::from_secs(1 << 32);
    passed.checked_sub(waited)
}

#[cfg(not(target_os = "linux"))]
fn on_processor_or_asleep() -> Option<Duration> {
    None
}

/// Returns the processor time of this thread; `None` if the system does not report it.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) fn processor_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).ok()
}

/// Returns the processor time of this thread; `None` if the system does not report it.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn processor_time() -> Option<Duration> {
    None
}
