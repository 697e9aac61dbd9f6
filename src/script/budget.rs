//! What one call of a script may spend, and the clock that ends it.
//!
//! Rhai's own limits leak: operations restart within callbacks, nothing bounds time. Here one
//! `on_progress` per engine reads thread-locals that a guard sets around each call, so that every
//! operation counts, whoever started it.
//!
//! Own running time is what a thread had of a processor: on a busy machine a call may stand still for
//! longer than it may run. Half of the time is granted by the wall clock, which costs nothing to read;
//! only who needs more than that is asked what it really used.

use rhai::{Dynamic, Engine};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What one call may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Operations of the interpreter.
    pub operations: u64,
    /// Own running time.
    pub time: Duration,
}

/// Why a call was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Operations(u64),
    Time(Duration),
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operations(limit) => write!(f, "used up its budget of {limit} operations"),
            Self::Time(limit) => write!(f, "used up its time of {} ms", limit.as_millis()),
        }
    }
}

thread_local! {
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
    static LIMIT: Cell<u64> = const { Cell::new(u64::MAX) };
    static DEADLINE: Cell<u64> = const { Cell::new(u64::MAX) };
    static ALLOWED: Cell<Duration> = const { Cell::new(Duration::MAX) };
    /// Processor time of this thread at which its call ends; none before half of its time is over.
    static END: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Sets a budget for the calling thread until it is dropped; the one before comes back then.
pub(crate) struct Guard {
    before: (u64, u64, u64, Duration, Option<Duration>),
}

impl Guard {
    pub(crate) fn enter(budget: Budget) -> Self {
        let before = (OPERATIONS.get(), LIMIT.get(), DEADLINE.get(), ALLOWED.get(), END.take());
        OPERATIONS.set(0);
        LIMIT.set(budget.operations);
        clock::want();
        ALLOWED.set(budget.time);
        look_again_in(if processor::IS_KNOWN { budget.time / 2 } else { budget.time });
        Self { before }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (operations, limit, deadline, allowed, end) = self.before;
        OPERATIONS.set(operations);
        LIMIT.set(limit);
        DEADLINE.set(deadline);
        ALLOWED.set(allowed);
        END.set(end);
    }
}

fn look_again_in(time: Duration) {
    // A tick may be almost over now: one more keeps the promise.
    let ticks = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    DEADLINE.set(clock::now().saturating_add(ticks));
}

/// Whether the running call has used up its time, asked when the wall clock says that it may have.
fn is_used_up() -> bool {
    let Some(used) = processor::time_of_this_thread() else { return true };
    match END.get() {
        Some(end) if used > end => return true,
        Some(end) => look_again_in(end - used),
        None => {
            let rest = ALLOWED.get() / 2;
            END.set(Some(used + rest));
            look_again_in(rest);
        }
    }
    false
}

/// Runs something that waits with the clock stopped: only own running time counts.
pub(crate) fn waiting<R>(wait: impl FnOnce() -> R) -> R {
    let left = DEADLINE.get().saturating_sub(clock::now());
    let result = wait();
    DEADLINE.set(clock::now().saturating_add(left));
    result
}

/// Makes an engine obey the budget of the thread it runs on.
pub(crate) fn obey(engine: &mut Engine) {
    engine.on_progress(|_| {
        let operations = OPERATIONS.get() + 1;
        OPERATIONS.set(operations);
        if operations > LIMIT.get() {
            return Some(Dynamic::from(Exceeded::Operations(LIMIT.get())));
        }
        if clock::now() > DEADLINE.get() && is_used_up() {
            return Some(Dynamic::from(Exceeded::Time(ALLOWED.get())));
        }
        None
    });
}

/// What a thread had of the processors, where the system says so.
mod processor {
    use std::time::Duration;

    pub(super) const IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "macos"));

    #[cfg(any(target_os = "linux", target_os = "macos"))]
    pub(super) fn time_of_this_thread() -> Option<Duration> {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    }

    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    pub(super) fn time_of_this_thread() -> Option<Duration> {
        None
    }
}

/// A clock that is read for the price of a load: a thread counts milliseconds while scripts run.
mod clock {
    use super::*;

    static TICKS: AtomicU64 = AtomicU64::new(0);
    static WANTED: AtomicBool = AtomicBool::new(false);
    static PARKED: AtomicBool = AtomicBool::new(false);
    static TICKER: OnceLock<std::thread::Thread> = OnceLock::new();

    /// Idle ticks before the thread goes to sleep.
    const IDLE: u32 = 2_000;

    pub(super) fn now() -> u64 {
        TICKS.load(Relaxed)
    }

    /// Says that a call runs, so that the clock must go on.
    pub(super) fn want() {
        if !WANTED.load(Relaxed) {
            WANTED.store(true, Relaxed);
        }
        let ticker = TICKER.get_or_init(start);
        if PARKED.load(Relaxed) {
            PARKED.store(false, Relaxed);
            ticker.unpark();
        }
    }

    fn start() -> std::thread::Thread {
        let spawned =
            std::thread::Builder::new().name("script-clock".into()).stack_size(64 * 1024).spawn(tick);
        spawned.map(|handle| handle.thread().clone()).unwrap_or_else(|_| std::thread::current())
    }

    fn tick() {
        let mut idle = 0;
        let mut last = std::time::Instant::now();
        let mut rest = Duration::ZERO;
        loop {
            std::thread::sleep(Duration::from_millis(1));
            // A late wake-up counts as all the milliseconds it took.
            let now = std::time::Instant::now();
            let passed = now - last + rest;
            last = now;
            rest = Duration::from_nanos(u64::from(passed.subsec_nanos() % 1_000_000));
            TICKS.fetch_add(passed.as_millis() as u64, Relaxed);
            idle = if WANTED.swap(false, Relaxed) { 0 } else { idle + 1 };
            if idle > IDLE {
                PARKED.store(true, Relaxed);
                std::thread::park();
                last = std::time::Instant::now();
                idle = 0;
            }
        }
    }
}
