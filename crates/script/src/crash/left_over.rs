//! The state that an ended process left behind.

use std::time::Duration;

/// The work of a thread when its process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRun {
    pub(super) id: String,
    pub(super) hash: String,
    /// Its file was being loaded; otherwise it was called.
    pub(super) is_loading: bool,
    /// Since when, before the last sign of life.
    pub(super) age: Duration,
}

/// The state that an ended process left behind in its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeftOver {
    /// The signal of its own fault, and what ran on that thread.
    pub(super) fault: Option<(i32, Option<LastRun>)>,
    /// The versions that ran on its threads.
    pub(super) running: Vec<LastRun>,
}
