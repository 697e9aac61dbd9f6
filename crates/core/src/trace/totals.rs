//! The sums of a request, for its line in the log.

use super::record::StepRecord;
use super::trace::Trace;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The sums of a request.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// The last model call, `provider/model`.
    call: Option<Arc<str>>,
    /// The prompt and completion tokens of all model calls.
    pub tokens: [u64; 2],
    /// The time from the start of the request to the first part of a streamed answer.
    pub first: Option<Duration>,
    /// The plugin that ended the request, and `refused`, `failed` or `breaker_open`.
    pub ended_by: Option<(Arc<str>, &'static str)>,
    /// The time of all hooks, including waiting.
    pub plugins: Duration,
    /// The time of all model calls.
    pub models: Duration,
}

impl Trace {
    /// Returns the way in which the request ended: `succeeded`, `disconnected` or `failed`, or the way in which a plugin
    /// ended it: `refused`, `failed` or `breaker_open`. `None` for a running request without an error.
    pub fn outcome(&self) -> Option<&'static str> {
        let Some(ended) = self.ended() else { return self.error().map(|_| "failed") };
        Some(match self.totals().ended_by {
            Some((_, word)) => word,
            None if ended.error.is_some() || ended.status >= 400 => "failed",
            None if ended.whole => "succeeded",
            None => "disconnected",
        })
    }

    /// Returns the plugins whose hooks and tools were called.
    pub fn plugins(&self) -> BTreeSet<String> {
        self.with_records(|records| {
            records.iter().filter_map(StepRecord::plugin).map(str::to_owned).collect()
        })
    }

    /// Returns the sums of the request.
    pub fn totals(&self) -> Totals {
        let has_failed = self.ended().is_some_and(|ended| ended.error.is_some());
        self.with_records(|records| {
            let mut totals = Totals { tokens: self.tokens(), ..Totals::default() };
            for record in records {
                totals.add(record, has_failed);
            }
            totals
        })
    }
}

impl Totals {
    /// Returns the provider of the last model call.
    pub fn provider(&self) -> Option<&str> {
        Some(self.call.as_deref()?.split_once('/')?.0)
    }

    fn add(&mut self, record: &StepRecord, has_failed: bool) {
        match record.hook {
            "model" => self.models += record.cost.took,
            "tool" => {}
            _ => self.plugins += record.took(),
        }
        match record.hook {
            "model" => {
                self.call = Some(record.name.clone());
                let first = record.details().first.map(|first| record.at + first);
                self.first = self.first.or(first);
            }
            "tool" => {}
            _ if has_failed && matches!(record.word, "refused" | "failed" | "breaker_open") => {
                self.ended_by = Some((record.name.clone(), record.word));
            }
            _ => {}
        }
    }
}
