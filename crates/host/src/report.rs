//! Reports of new generations, and how the host's looks at its folders and its store went.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_core::metrics::{Histogram, HistogramSnapshot};
use valvehouse_script::Diagnostic;

/// The news of a generation.
#[derive(Debug, Clone)]
pub struct Report {
    /// The generation.
    pub generation: u64,
    /// The changes in it.
    pub changes: Vec<Change>,
    /// From the look at the folder to the swap.
    pub took: Duration,
}

/// One plugin's news.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A new file runs.
    Loaded(Arc<str>),
    /// A changed file runs.
    Updated(Arc<str>),
    /// A changed file does not load; its last good version runs on.
    Stale(Arc<str>, Vec<Diagnostic>),
    /// A new file does not load.
    Broken(Arc<str>, Vec<Diagnostic>),
    /// A file was removed, and its plugin with it.
    Removed(Arc<str>),
    /// A guard's file is missing: requests are rejected.
    Missing(Arc<str>),
    /// Valves or switches are other ones.
    Settings(Arc<str>),
    /// It lists other models or tools.
    Listed(Arc<str>),
    /// Something is wrong with a file that is not a plugin.
    Diagnostic(Diagnostic),
}

impl Change {
    /// The change in one word.
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

    /// The plugin that changed.
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

/// The outcomes and the times of looks.
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
    /// A scan ended, with the changes that it found.
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

    /// The time since the last one.
    pub fn ago(&self) -> Duration {
        self.last.lock().elapsed()
    }

    /// Generations that came without and with something wrong in them.
    pub fn reloads(&self) -> [(&'static str, u64); 2] {
        [("clean", self.clean.load(Relaxed)), ("faulty", self.faulty.load(Relaxed))]
    }

    /// From a look to the swap.
    pub fn times(&self) -> HistogramSnapshot {
        self.times.read()
    }
}
