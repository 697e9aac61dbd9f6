//! How the host's looks at its folders and its store went.

use super::{Change, Report};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_core::figures::{Spread, Spreading};

/// What they came to, and when the last one was.
#[derive(Debug)]
pub struct Looks {
    last: Mutex<Instant>,
    clean: AtomicU64,
    faulty: AtomicU64,
    times: Spread,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            clean: AtomicU64::new(0),
            faulty: AtomicU64::new(0),
            times: Spread::of_work(),
        }
    }
}

impl Looks {
    /// A look is over; with what was new, where anything was.
    pub(super) fn looked(&self, report: Option<&Report>) {
        *self.last.lock() = Instant::now();
        let Some(report) = report else { return };
        let is_bad = |change: &Change| {
            matches!(change, Change::Stale(..) | Change::Broken(..) | Change::Missing(_) | Change::Problem(_))
        };
        let count = if report.changes.iter().any(is_bad) { &self.faulty } else { &self.clean };
        count.fetch_add(1, Relaxed);
        self.times.add(report.took);
    }

    /// How long ago the last one was.
    pub fn ago(&self) -> Duration {
        self.last.lock().elapsed()
    }

    /// Generations that came without and with something wrong in them.
    pub fn reloads(&self) -> [(&'static str, u64); 2] {
        [("clean", self.clean.load(Relaxed)), ("faulty", self.faulty.load(Relaxed))]
    }

    /// From a look to the swap.
    pub fn times(&self) -> Spreading {
        self.times.read()
    }
}
