//! The running time of a thread, without interruptions.

use std::cell::Cell;
use std::time::{Duration, Instant};

pub(super) const IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "macos"));

/// Returns a time of this thread that excludes waiting for a processor, but includes time spent sleeping: the
/// interpreter puts a script to sleep repeatedly if it competes with itself for a shared value. If this is unknown,
/// returns the processor time. Only differences are meaningful.
pub(super) fn time_of_this_thread() -> Option<Duration> {
    on_processor_or_asleep().or_else(processor_time)
}

thread_local! {
    /// The tick at which a call last read `processor_time` at its start, and the value.
    static LAST: Cell<(u64, Option<Duration>)> = const { Cell::new((u64::MAX, None)) };
}

/// Returns the processor time of this thread at this tick or shortly before, and `true` if it was read now. It is
/// read once per tick.
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
    // The fields: nanoseconds on a processor, nanoseconds ready and waiting for one, number of time slices.
    let metrics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let waited = metrics.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)?;
    // A thread may have waited before the first reading; the offset keeps the result positive.
    let passed = START.get_or_init(Instant::now).elapsed() + Duration::from_secs(1 << 32);
    passed.checked_sub(waited)
}

#[cfg(not(target_os = "linux"))]
fn on_processor_or_asleep() -> Option<Duration> {
    None
}

/// Returns the processor time of this thread; `None` if the system does not report it.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub fn processor_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).ok()
}

/// Returns the processor time of this thread; `None` if the system does not report it.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn processor_time() -> Option<Duration> {
    None
}
