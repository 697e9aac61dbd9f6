//! Reports of new generations, and statistics of the scans of folders and store.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_core::metrics::{Histogram, HistogramSnapshot};
use valvehouse_script::Diagnostic;

/// The report of a generation.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The generation.
    pub generation: u64,
    /// The changes since the previous generation.
    pub changes: Vec<Change>,
    /// The time from the start of the scan to the swap of the snapshot.
    pub took: Duration,
}

/// A change of one plugin.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A new file runs.
    Loaded(Arc<str>),
    /// A changed file runs.
    Updated(Arc<str>),
    /// A changed file does not load; the last good version keeps running.
    Stale(Arc<str>, Vec<Diagnostic>),
    /// A new file does not load.
    Broken(Arc<str>, Vec<Diagnostic>),
    /// A file and its plugin were removed.
    Removed(Arc<str>),
    /// A guard's file is missing: requests are rejected.
    Missing(Arc<str>),
    /// Valves, switches or grants changed.
    Settings(Arc<str>),
    /// Its lists of models or tools changed.
    Listed(Arc<str>),
    /// A problem of a file that is not a plugin.
    Diagnostic(Diagnostic),
}

impl Change {
    /// Returns the name of the change.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Loaded(_) => "loaded",
            Self::Updated(_) => "updated",
            Self::Stale(..) => "stale",
            Self::Broken(..) => "broken",
            Self::Removed(_) => "removed",
            Self::Missing(_) => "missing",
            Self::Settings(_) => "settings",
            Self::Listed(_) => "listed",
            Self::Diagnostic(_) => "problem",
        }
    }

    /// Returns the id of the changed plugin.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Loaded(id)
            | Self::Updated(id)
            | Self::Removed(id)
            | Self::Missing(id)
            | Self::Settings(id)
            | Self::Listed(id) => Some(id),
            Self::Stale(id, _) | Self::Broken(id, _) => Some(id),
            Self::Diagnostic(_) => None,
        }
    }
}

/// The counts and durations of scans.
#[derive(Debug)]
pub struct Looks {
    last: Mutex<Instant>,
    clean: AtomicU64,
    faulty: AtomicU64,
    times: Histogram,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            clean: AtomicU64::new(0),
            faulty: AtomicU64::new(0),
            times: Histogram::of_work(),
        }
    }
}

impl Looks {
    /// Records a scan, with the report of a new generation.
    pub(crate) fn looked(&self, report: Option<&Report>) {
        *self.last.lock() = Instant::now();
        let Some(report) = report else { return };
        let is_bad = |change: &Change| {
            matches!(
                change,
                Change::Stale(..) | Change::Broken(..) | Change::Missing(_) | Change::Diagnostic(_)
            )
        };
        let count = if report.changes.iter().any(is_bad) { &self.faulty } else { &self.clean };
        count.fetch_add(1, Relaxed);
        self.times.add(report.took);
    }

    /// Returns the time since the last scan.
    pub fn ago(&self) -> Duration {
        self.last.lock().elapsed()
    }

    /// Returns the number of new generations without and with problems.
    pub fn reloads(&self) -> [(&'static str, u64); 2] {
        [("clean", self.clean.load(Relaxed)), ("faulty", self.faulty.load(Relaxed))]
    }

    /// Returns the times from the start of a scan to the swap of the snapshot.
    pub fn times(&self) -> HistogramSnapshot {
        self.times.read()
    }
}
