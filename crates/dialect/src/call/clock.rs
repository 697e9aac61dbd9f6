//! A clock that costs one memory load to read: a thread counts milliseconds while scripts run.
//!
//! The thread stops after about two seconds without a use. The next use first brings the clock up to date, so that
//! the age of a waiting call includes the time in which the clock was stopped.

use crate::crash;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

static TICKS: AtomicU64 = AtomicU64::new(0);
static WANTED: AtomicBool = AtomicBool::new(false);
static PARKED: AtomicBool = AtomicBool::new(false);
static TICKER: OnceLock<std::thread::Thread> = OnceLock::new();

#[cfg(test)]
thread_local! {
    /// The number of uses of the clock by this thread.
    static WISHES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns the number of uses of the clock by this thread.
#[cfg(test)]
pub(crate) fn wishes() -> u64 {
    WISHES.get()
}

/// The number of idle ticks after which the thread stops.
const IDLE: u32 = 2_000;

/// Returns the milliseconds since the first use. The value is outdated while the thread is stopped, until the next
/// [`want`].
#[inline]
pub fn now() -> u64 {
    TICKS.load(Relaxed)
}

/// Keeps the clock running, and brings it up to date if it was stopped.
pub(crate) fn want() {
    #[cfg(test)]
    WISHES.with(|wishes| wishes.set(wishes.get() + 1));
    if !WANTED.load(Relaxed) {
        WANTED.store(true, Relaxed);
    }
    let ticker = TICKER.get_or_init(start);
    if PARKED.load(Relaxed) {
        catch_up();
        PARKED.store(false, SeqCst);
        ticker.unpark();
    }
}

/// Returns the current tick at the start of a call, after bringing the clock up to date.
pub fn now_at_start() -> u64 {
    want();
    now()
}

/// Sets the clock to the time that has passed.
fn catch_up() {
    static START: OnceLock<Instant> = OnceLock::new();
    let passed = START.get_or_init(Instant::now).elapsed();
    TICKS.fetch_max(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX), Relaxed);
    crash::beat(now());
}

fn start() -> std::thread::Thread {
    catch_up();
    let spawned = std::thread::Builder::new().name("script-clock".into()).stack_size(64 * 1024).spawn(tick);
    spawned.map(|handle| handle.thread().clone()).unwrap_or_else(|_| std::thread::current())
}

fn tick() {
    let mut idle = 0;
    loop {
        std::thread::sleep(Duration::from_millis(1));
        catch_up();
        idle = if WANTED.swap(false, Relaxed) { 0 } else { idle + 1 };
        if idle > IDLE {
            PARKED.store(true, SeqCst);
            while PARKED.load(SeqCst) {
                std::thread::park();
            }
            idle = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_catches_up_after_a_sleep() {
        want();
        let before = now();
        std::thread::sleep(Duration::from_millis(30));
        catch_up();
        assert!(now() >= before + 30, "{} after {before}", now());
    }
}
