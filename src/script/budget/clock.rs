//! A clock that is read for the price of a load: a thread counts milliseconds while scripts run.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

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
    let spawned = std::thread::Builder::new().name("script-clock".into()).stack_size(64 * 1024).spawn(tick);
    spawned.map(|handle| handle.thread().clone()).unwrap_or_else(|_| std::thread::current())
}

fn tick() {
    let mut idle = 0;
    let mut last = Instant::now();
    let mut rest = Duration::ZERO;
    loop {
        std::thread::sleep(Duration::from_millis(1));
        // A late wake-up counts as all the milliseconds it took.
        let now = Instant::now();
        let passed = now - last + rest;
        last = now;
        rest = Duration::from_nanos(u64::from(passed.subsec_nanos() % 1_000_000));
        TICKS.fetch_add(passed.as_millis() as u64, Relaxed);
        idle = if WANTED.swap(false, Relaxed) { 0 } else { idle + 1 };
        if idle > IDLE {
            PARKED.store(true, Relaxed);
            std::thread::park();
            last = Instant::now();
            idle = 0;
        }
    }
}
