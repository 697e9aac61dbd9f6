//! Metrics of the calls of one tool.

use super::histogram::{Histogram, HistogramSnapshot, counted};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The outcome of a tool call, including its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The tool returned a result.
    Well,
    /// The tool returned an error.
    Failed,
    /// The tool exceeded its timeout.
    TooSlow,
    /// The tool panicked.
    Panicked,
    /// The call paused for a person.
    Paused,
    /// The caller disconnected.
    Canceled,
}

const ALL: [ToolOutcome; 6] = [
    ToolOutcome::Well,
    ToolOutcome::Failed,
    ToolOutcome::TooSlow,
    ToolOutcome::Panicked,
    ToolOutcome::Paused,
    ToolOutcome::Canceled,
];

impl ToolOutcome {
    /// Returns the name of the outcome in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Well => "ok",
            Self::Failed => "error",
            Self::TooSlow => "timeout",
            Self::Panicked => "panicked",
            Self::Paused => "paused",
            Self::Canceled => "canceled",
        }
    }
}

/// The metrics of tools by name, over all versions of a tool.
#[derive(Debug, Default)]
pub struct Tools(Mutex<HashMap<String, Arc<Uses>>>);

impl Tools {
    /// Returns the metrics of a tool.
    pub fn of(&self, name: &str) -> Arc<Uses> {
        self.0.lock().entry(name.to_owned()).or_default().clone()
    }
}

/// The metrics of one tool.
#[derive(Debug)]
pub struct Uses {
    ended: [AtomicU64; ALL.len()],
    times: Histogram,
}

impl Default for Uses {
    fn default() -> Self {
        Self { ended: Default::default(), times: Histogram::of_work() }
    }
}

impl Uses {
    /// Starts a call.
    pub fn begin(self: &Arc<Self>) -> ToolCallGuard {
        ToolCallGuard { uses: self.clone(), began: Instant::now(), ending: ToolOutcome::Canceled }
    }

    /// Returns the number of calls for each outcome, with its name.
    pub fn outcomes(&self) -> [(&'static str, u64); ALL.len()] {
        let counts = counted(&self.ended);
        std::array::from_fn(|place| (ALL[place].as_str(), counts[place]))
    }

    /// Returns the distribution of durations, including waiting and retries.
    pub fn times(&self) -> HistogramSnapshot {
        self.times.read()
    }
}

/// A tool call in progress. If it is dropped early, the caller disconnected.
#[derive(Debug)]
pub struct ToolCallGuard {
    uses: Arc<Uses>,
    began: Instant,
    ending: ToolOutcome,
}

impl ToolCallGuard {
    /// Ends the call.
    pub fn ends(mut self, ending: ToolOutcome) {
        self.ending = ending;
    }
}

impl Drop for ToolCallGuard {
    fn drop(&mut self) {
        self.uses.ended[self.ending as usize].fetch_add(1, Relaxed);
        self.uses.times.add(self.began.elapsed());
    }
}
