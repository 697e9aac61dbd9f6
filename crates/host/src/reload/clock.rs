//! The clock of the writer: the reasons for which a scan waits, and the time of the next one.

use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_store::now;

/// A reason for another scan soon. What ran before keeps running until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Files were written just now; files that are saved together go live together.
    Saving,
    /// The file of a guard was written just now, and the save may be incomplete.
    SavingGuard,
    /// A file is missing for the first time; a save by renaming leaves a gap.
    Vanished,
    /// A file is still being compiled.
    Compiling,
    /// Something that a scan found is not reported or recorded yet.
    Recording,
}

impl Wait {
    /// Returns the delay of the next scan.
    pub(crate) const fn delay(self) -> Duration {
        Duration::from_millis(match self {
            Self::Saving | Self::SavingGuard | Self::Recording => 10,
            Self::Compiling => 25,
            Self::Vanished => 150,
        })
    }

    /// Returns the time without writes after which a file counts as saved.
    pub(super) const fn rest(self) -> Duration {
        Duration::from_millis(if matches!(self, Self::SavingGuard) { 120 } else { 25 })
    }

    /// Returns the time after which collected changes go live without waiting for this.
    const fn max_delay(self) -> Duration {
        match self {
            Self::Saving | Self::Vanished => Duration::from_millis(100),
            Self::SavingGuard => Duration::from_secs(1),
            Self::Compiling | Self::Recording => Duration::MAX,
        }
    }
}

/// The goal of a sequence of scans.
pub(crate) enum Until<'a> {
    /// Everything is live except for files that take long to compile.
    Quick,
    /// The same, and the file of this plugin is compiled.
    Compiled(&'a str),
    /// Everything is live.
    Complete,
}

/// The time of the next scan.
#[derive(Default)]
pub(crate) struct Due {
    pub(crate) wait: Option<Wait>,
    /// Plugins whose files are still being compiled.
    pub(crate) compiling: Vec<Arc<str>>,
}

impl Due {
    /// Returns the delay of the next scan; `None` if the goal is reached.
    pub(crate) fn after(&self, until: &Until<'_>) -> Option<Duration> {
        let is_compiling = match until {
            Until::Quick => false,
            Until::Compiled(id) => self.compiling.iter().any(|compiling| **compiling == **id),
            Until::Complete => !self.compiling.is_empty(),
        };
        self.wait.or(is_compiling.then_some(Wait::Compiling)).map(Wait::delay)
    }
}

/// The times of the current scan and of the changes that it collects.
pub(super) struct Clock {
    /// `true` if a snapshot is live during the scan. Otherwise there is nothing that could keep running.
    pub(super) is_serving: bool,
    /// The start of the current scan, also in milliseconds since 1970.
    began: (Instant, i64),
    /// The time at which the first of the collected changes was found.
    since: Option<Instant>,
    /// The start of the last complete scan, in milliseconds since 1970.
    pub(super) looked_at: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { is_serving: false, began: (Instant::now(), now()), since: None, looked_at: 0 }
    }
}

impl Clock {
    /// Starts a scan.
    pub(super) fn begin(&mut self, is_serving: bool) {
        (self.is_serving, self.began) = (is_serving, (Instant::now(), now()));
    }

    /// Returns `true` if the collected changes still wait for this.
    pub(super) fn allows(&mut self, wait: Wait) -> bool {
        let since = *self.since.get_or_insert(self.began.0);
        self.is_serving && self.began.0.duration_since(since) < wait.max_delay()
    }

    /// Ends the collection of changes: those of the current scan go live.
    pub(super) fn collected(&mut self) {
        (self.since, self.looked_at) = (None, self.began.1);
    }

    /// Returns the time since the start of the scan.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.0.elapsed()
    }
}
