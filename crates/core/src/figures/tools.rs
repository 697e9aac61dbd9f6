//! The results of one tool's calls, whoever brings it.

use super::spread::{Spread, Spreading, counted};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The end of a call of a tool, its further tries included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOutcome {
    /// With a result.
    Well,
    /// With an error of its own.
    Failed,
    /// Its time was up.
    TooSlow,
    /// It panicked.
    Panicked,
    /// It waits for a person.
    Paused,
    /// The caller went away.
    Left,
}

const ALL: [ToolOutcome; 6] = [
    ToolOutcome::Well,
    ToolOutcome::Failed,
    ToolOutcome::TooSlow,
    ToolOutcome::Panicked,
    ToolOutcome::Paused,
    ToolOutcome::Left,
];

impl ToolOutcome {
    /// One word for figures.
    pub fn word(self) -> &'static str {
        match self {
            Self::Well => "ok",
            Self::Failed => "error",
            Self::TooSlow => "timeout",
            Self::Panicked => "panicked",
            Self::Paused => "paused",
            Self::Left => "left",
        }
    }
}

/// The figures of tools by name: of whichever version of them ran.
#[derive(Debug, Default)]
pub struct Tools(Mutex<HashMap<String, Arc<Uses>>>);

impl Tools {
    /// The counter that adds up the calls of one tool.
    pub fn of(&self, name: &str) -> Arc<Uses> {
        self.0.lock().entry(name.to_owned()).or_default().clone()
    }
}

/// The figures of one tool.
#[derive(Debug)]
pub struct Uses {
    ended: [AtomicU64; ALL.len()],
    times: Spread,
}

impl Default for Uses {
    fn default() -> Self {
        Self { ended: Default::default(), times: Spread::of_work() }
    }
}

impl Uses {
    /// It is called.
    pub fn begin(self: &Arc<Self>) -> Using {
        Using { uses: self.clone(), began: Instant::now(), ending: ToolOutcome::Left }
    }

    /// The ends of calls, each way with its word.
    pub fn outcomes(&self) -> [(&'static str, u64); ALL.len()] {
        let counts = counted(&self.ended);
        std::array::from_fn(|place| (ALL[place].word(), counts[place]))
    }

    /// The times that they took, waiting and further tries included.
    pub fn times(&self) -> Spreading {
        self.times.read()
    }
}

/// A call of a tool under way. Dropped before it ended, its caller went away.
#[derive(Debug)]
pub struct Using {
    uses: Arc<Uses>,
    began: Instant,
    ending: ToolOutcome,
}

impl Using {
    /// It has ended.
    pub fn ends(mut self, ending: ToolOutcome) {
        self.ending = ending;
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.uses.ended[self.ending as usize].fetch_add(1, Relaxed);
        self.uses.times.add(self.began.elapsed());
    }
}
