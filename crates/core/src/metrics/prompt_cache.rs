//! Counts of requests in which a filter preserved the conversation prefix that a provider may have cached.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use valvehouse_json::Json;

/// The counts for one version of a filter; can be updated from any thread.
#[derive(Debug, Default)]
pub struct PromptCacheCounter {
    kept: AtomicU64,
    lost: AtomicU64,
}

impl PromptCacheCounter {
    /// Counts a measured request.
    pub fn add(&self, is_kept: bool) {
        if is_kept { &self.kept } else { &self.lost }.fetch_add(1, Relaxed);
    }

    /// Returns the counts so far.
    pub fn count(&self) -> PromptCacheCount {
        let (kept, lost) = (self.kept.load(Relaxed), self.lost.load(Relaxed));
        PromptCacheCount { requests: kept + lost, lost }
    }
}

/// The counts of a filter's measured requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptCacheCount {
    /// The number of measured requests; each continued an earlier request of its conversation.
    pub requests: u64,
    /// The number of requests in which the filter changed the prefix that the earlier request had sent.
    pub lost: u64,
}

impl PromptCacheCount {
    /// Returns the sum of both counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, lost: self.lost + other.lost }
    }

    /// Returns the count as text, such as `keeps prompt cache: no (lost in 2 of 20 requests)`; `None` if no
    /// request was measured.
    pub fn to_words(self) -> Option<String> {
        let Self { requests, lost } = self;
        match (requests, lost) {
            (0, _) => None,
            (1, 0) => Some("keeps prompt cache: yes (1 request)".into()),
            (_, 0) => Some(format!("keeps prompt cache: yes ({requests} requests)")),
            _ => Some(format!("keeps prompt cache: no (lost in {lost} of {requests} requests)")),
        }
    }

    /// Converts the count to `{keeps, requests, lost}`; null if no request was measured.
    pub fn to_json(self) -> Json {
        if self.requests == 0 {
            return Json::Null;
        }
        Json::from([
            ("keeps", (self.lost == 0).into()),
            ("requests", self.requests.into()),
            ("lost", self.lost.into()),
        ])
    }

    /// Reads an object created by [`PromptCacheCount::to_json`].
    pub fn from_json(json: &Json) -> Self {
        let number = |name: &str| {
            let number = json.get(name).and_then(|value| value.as_i64());
            number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
        };
        Self { requests: number("requests"), lost: number("lost") }
    }
}
