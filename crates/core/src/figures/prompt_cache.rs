//! Counts of requests in which a filter left what a service may have cached of a conversation as it was.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use valvehouse_json::Json;

/// Counts for one version of a filter, from any thread.
#[derive(Debug, Default)]
pub struct PromptCacheTally {
    kept: AtomicU64,
    lost: AtomicU64,
}

impl PromptCacheTally {
    /// Counts a measured request.
    pub fn add(&self, is_kept: bool) {
        if is_kept { &self.kept } else { &self.lost }.fetch_add(1, Relaxed);
    }

    /// The requests so far.
    pub fn count(&self) -> PromptCacheCount {
        let (kept, lost) = (self.kept.load(Relaxed), self.lost.load(Relaxed));
        PromptCacheCount { requests: kept + lost, lost }
    }
}

/// The measured requests of a filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptCacheCount {
    /// All of them: each continued an earlier request of its conversation.
    pub requests: u64,
    /// Those in which the filter wrote the part that the earlier one had sent in another way.
    pub lost: u64,
}

impl PromptCacheCount {
    /// Both added up.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, lost: self.lost + other.lost }
    }

    /// The count in words, such as `keeps prompt cache: no (lost in 2 of 20 requests)`; `None` where nothing was
    /// measured.
    pub fn to_words(self) -> Option<String> {
        let Self { requests, lost } = self;
        match (requests, lost) {
            (0, _) => None,
            (1, 0) => Some("keeps prompt cache: yes (1 request)".into()),
            (_, 0) => Some(format!("keeps prompt cache: yes ({requests} requests)")),
            _ => Some(format!("keeps prompt cache: no (lost in {lost} of {requests} requests)")),
        }
    }

    /// `{keeps, requests, lost}`; null where nothing was measured.
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

    /// Reads what [`PromptCacheCount::to_json`] wrote.
    pub fn from_json(json: &Json) -> Self {
        let number = |name: &str| {
            let number = json.get(name).and_then(|value| value.as_i64());
            number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
        };
        Self { requests: number("requests"), lost: number("lost") }
    }
}
