//! Metrics of the calls of one provider.

use super::balancer::Balancer;
use super::histogram::{Histogram, HistogramSnapshot, counted};
use crate::chat::response::cached_tokens;
use crate::error::Error;
use crate::error_code::message_of;
use crate::text::shortened;
use crate::trace::Trace;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime};
use valvehouse_json::Json;

/// The maximum length of the text of a failure, in bytes.
const MAX_FAILURE: usize = 1_000;

/// The outcome of a provider call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderOutcome {
    /// The call succeeded.
    Whole,
    /// The provider rejected the request: status 400 to 499.
    Refused,
    /// The provider limited the rate: status 429.
    RateLimited,
    /// The provider failed: status 500 and above, or an invalid response.
    Failed,
    /// The provider could not be reached.
    Unreachable,
    /// The call exceeded its deadline.
    TooSlow,
    /// The response was interrupted.
    Interrupted,
    /// The call was skipped because the circuit breaker is open.
    BreakerOpen,
    /// The client disconnected.
    Canceled,
}

const ALL: [ProviderOutcome; 9] = [
    ProviderOutcome::Whole,
    ProviderOutcome::Refused,
    ProviderOutcome::RateLimited,
    ProviderOutcome::Failed,
    ProviderOutcome::Unreachable,
    ProviderOutcome::TooSlow,
    ProviderOutcome::Interrupted,
    ProviderOutcome::BreakerOpen,
    ProviderOutcome::Canceled,
];

impl ProviderOutcome {
    /// Returns the name of the outcome in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "answered",
            Self::Refused => "refused",
            Self::RateLimited => "rate_limited",
            Self::Failed => "failed",
            Self::Unreachable => "unreachable",
            Self::TooSlow => "timeout",
            Self::Interrupted => "interrupted",
            Self::BreakerOpen => "breaker_open",
            Self::Canceled => "canceled",
        }
    }
}

/// Converts an error from before the start of a response. Later failures are `Interrupted`.
impl From<&Error> for ProviderOutcome {
    fn from(error: &Error) -> Self {
        match error {
            Error::Answered { status: 429, .. } => Self::RateLimited,
            Error::Answered { status: 400..=499, .. } => Self::Refused,
            Error::Unanswered { timeout: true, .. } | Error::Provider { timeout: true, .. } => Self::TooSlow,
            Error::Unanswered { .. } => Self::Unreachable,
            Error::BreakerOpen { .. } => Self::BreakerOpen,
            Error::Paused => Self::Canceled,
            _ => Self::Failed,
        }
    }
}

/// The metrics of one provider.
#[derive(Debug)]
pub struct Service {
    ended: [AtomicU64; ALL.len()],
    running: AtomicU64,
    retries: AtomicU64,
    fallbacks: AtomicU64,
    tokens: [AtomicU64; 2],
    times: Histogram,
    first: Histogram,
    last_failure: Mutex<Option<(SystemTime, String)>>,
    /// The keys and deployments, if there are several.
    targets: Arc<Balancer>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            ended: Default::default(),
            running: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
            tokens: Default::default(),
            times: Histogram::of_models(),
            first: Histogram::of_models(),
            last_failure: Mutex::default(),
            targets: Arc::default(),
        }
    }
}

impl Service {
    /// Creates the metrics of a provider with several keys or deployments.
    pub fn with_targets(targets: Arc<Balancer>) -> Self {
        Self { targets, ..Self::default() }
    }

    /// Returns the keys and deployments; empty unless there are several.
    pub fn targets(&self) -> &Balancer {
        &self.targets
    }

    /// Starts a call, whose tokens count in this trace too.
    pub fn ask(self: &Arc<Self>, trace: Option<&Arc<Trace>>) -> ProviderCallGuard {
        self.running.fetch_add(1, Relaxed);
        ProviderCallGuard {
            service: self.clone(),
            began: Instant::now(),
            has_begun: false,
            is_over: false,
            tokens: None,
            token_kinds: [0, 0],
            trace: trace.cloned(),
            estimate: [0, 0],
        }
    }

    /// Counts a retry.
    pub fn record_retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// Counts a request that a fallback answered.
    pub fn replaced(&self) {
        self.fallbacks.fetch_add(1, Relaxed);
    }

    /// Returns the number of calls for each outcome, with its name.
    pub fn outcomes(&self) -> [(&'static str, u64); ALL.len()] {
        let counts = counted(&self.ended);
        std::array::from_fn(|place| (ALL[place].as_str(), counts[place]))
    }

    /// Returns the time and the text of the last failure of the service. Refused requests and skipped calls are not failures.
    pub fn last_failure(&self) -> Option<(SystemTime, String)> {
        self.last_failure.lock().clone()
    }

    /// Returns the number of calls in progress.
    pub fn running(&self) -> u64 {
        self.running.load(Relaxed)
    }

    /// Returns the number of retries.
    pub fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }

    /// Returns the number of requests that a fallback answered.
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Relaxed)
    }

    /// Returns the number of prompt and completion tokens that the provider reported.
    pub fn tokens(&self) -> [u64; 2] {
        counted(&self.tokens)
    }

    /// Returns the distribution of times from a request to the end of its response, for answered calls.
    pub fn times(&self) -> HistogramSnapshot {
        self.times.read()
    }

    /// Returns the distribution of times from a request to the first part of its response.
    pub fn first(&self) -> HistogramSnapshot {
        self.first.read()
    }
}

/// A provider call in progress. If it is dropped early, the client disconnected.
#[derive(Debug)]
pub struct ProviderCallGuard {
    service: Arc<Service>,
    began: Instant,
    has_begun: bool,
    is_over: bool,
    tokens: Option<[u64; 2]>,
    /// Those from a cache and of reasoning.
    token_kinds: [u64; 2],
    trace: Option<Arc<Trace>>,
    /// The estimated prompt and completion tokens, for an answer without a usage.
    estimate: [u64; 2],
}

/// The estimated number of bytes of a token.
const BYTES_PER_TOKEN: usize = 4;
/// The maximum number of tokens of one answer; a usage with more cannot be right.
const MAX_TOKENS: u64 = 1 << 40;

impl ProviderCallGuard {
    /// Sets the length of the request in bytes, from which its tokens are estimated if the answer has no usage.
    pub fn sends(&mut self, bytes: usize) {
        self.estimate[0] = u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
    }

    /// Estimates the tokens of a complete answer without a usage from the length of its texts in bytes.
    pub fn estimate_whole(&mut self, bytes: impl FnOnce() -> usize) {
        if self.tokens.is_none() {
            let tokens = u64::try_from(bytes() / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
            self.estimate[1] = self.estimate[1].max(tokens);
        }
    }

    /// Records that a part of the response arrived.
    pub fn receives(&mut self) {
        self.estimate[1] += 1;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.service.first.add(self.began.elapsed());
        }
    }

    /// Records the token counts of a `usage` in a format of OpenAI. The last one counts. One that cannot be right is
    /// ignored.
    pub fn record_usage(&mut self, usage: &Json) {
        // A negative count is one that cannot be right.
        let count = |name: &str| Some(u64::try_from(usage.get(name)?.as_i64()?).unwrap_or(u64::MAX));
        let read = count("prompt_tokens").or_else(|| count("input_tokens"));
        let written = count("completion_tokens").or_else(|| count("output_tokens"));
        let tokens = [read.unwrap_or(0), written.unwrap_or(0)];
        if read.or(written).is_some() && can_be(tokens) {
            self.tokens = Some(tokens);
            // Most usages have no other counts, which are looked for only if there is another field.
            let plain = [read.is_some(), written.is_some(), usage.get("total_tokens").is_some()];
            let has_more = usage.len() > plain.into_iter().filter(|is_there| *is_there).count();
            self.token_kinds = if has_more { token_kinds(usage) } else { [0, 0] };
        }
    }

    /// Records the prompt and completion tokens of a usage without further counts.
    pub fn record_tokens(&mut self, tokens: [u64; 2]) {
        if can_be(tokens) {
            (self.tokens, self.token_kinds) = (Some(tokens), [0, 0]);
        }
    }

    /// Records a failure.
    pub fn fails(&mut self, error: &Error) {
        let ending = match error.into() {
            ProviderOutcome::Failed if self.has_begun => ProviderOutcome::Interrupted,
            other => other,
        };
        use ProviderOutcome::{BreakerOpen, Canceled, Refused};
        if !matches!(ending, Refused | BreakerOpen | Canceled) {
            let own = match error {
                Error::Answered { body, .. } => message_of(body),
                _ => None,
            };
            let text = own.map_or_else(|| error.to_string(), |own| format!("{error}: {own}"));
            *self.service.last_failure.lock() = Some((SystemTime::now(), shortened(text, MAX_FAILURE)));
        }
        self.ends(ending);
    }

    /// Ends the call.
    pub fn ends(&mut self, ending: ProviderOutcome) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let service = &self.service;
        service.running.fetch_sub(1, Relaxed);
        service.ended[ending as usize].fetch_add(1, Relaxed);
        if ending == ProviderOutcome::Whole {
            service.times.add(self.began.elapsed());
        }
        if let Some(trace) = &self.trace {
            // A client that leaves before the usage is sent pays for what was read and written until then.
            let was_read = self.has_begun || ending == ProviderOutcome::Canceled;
            if let Some(tokens) = self.tokens.or(was_read.then_some(self.estimate)) {
                trace.use_tokens(tokens, self.token_kinds);
            }
        }
        for (sum, tokens) in service.tokens.iter().zip(self.tokens.into_iter().flatten()) {
            sum.fetch_add(tokens, Relaxed);
        }
    }
}

/// Returns `false` for token counts that cannot be right.
fn can_be(tokens: [u64; 2]) -> bool {
    tokens.iter().all(|count| *count <= MAX_TOKENS)
}

/// Returns the prompt tokens from a cache and the completion tokens of reasoning.
fn token_kinds(usage: &Json) -> [u64; 2] {
    let at = |path: &str| usage.at_path(path).as_i64();
    let cached = cached_tokens(usage).or_else(|| at("input_tokens_details.cached_tokens"));
    let reasoned = at("completion_tokens_details.reasoning_tokens")
        .or_else(|| at("output_tokens_details.reasoning_tokens"));
    [cached, reasoned].map(|count| count.map_or(0, |count| count.max(0).unsigned_abs().min(MAX_TOKENS)))
}

impl Drop for ProviderCallGuard {
    fn drop(&mut self) {
        self.ends(ProviderOutcome::Canceled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{RequestFacts, Traces};

    fn of(service: &Service, word: &str) -> u64 {
        service.outcomes().into_iter().find(|(known, _)| *known == word).unwrap().1
    }

    #[test]
    fn a_call_ends_once_and_its_last_usage_counts() {
        let service = Arc::new(Service::default());
        let mut asking = service.ask(None);
        assert_eq!(service.running(), 1);
        for usage in [
            r#"{"prompt_tokens":3,"completion_tokens":1}"#,
            "null",
            r#"{"prompt_tokens":3,"completion_tokens":9}"#,
        ] {
            asking.receives();
            asking.record_usage(&Json::parse(usage.as_bytes()).unwrap());
        }
        asking.ends(ProviderOutcome::Whole);
        drop(asking);
        assert_eq!((service.running(), of(&service, "answered"), of(&service, "canceled")), (0, 1, 0));
        assert_eq!((service.tokens(), service.first().count, service.times().count), ([3, 9], 1, 1));
    }

    #[test]
    fn tokens_from_a_cache_and_of_reasoning_are_counted_in_every_form() {
        for (usage, kinds) in [
            (r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}"#, [0, 0]),
            (r#"{"prompt_tokens":9,"completion_tokens":5,"cached_tokens":4}"#, [4, 0]),
            (r#"{"prompt_tokens":9,"prompt_cache_hit_tokens":4}"#, [4, 0]),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}"#,
                [4, 0],
            ),
            (r#"{"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":3}}"#, [0, 3]),
            (
                r#"{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3}}"#,
                [4, 3],
            ),
            (r#"{"prompt_tokens":9,"cached_tokens":-4}"#, [0, 0]),
        ] {
            let recording = Traces::new(1).begin(RequestFacts::default(), false);
            let mut asking = Arc::new(Service::default()).ask(Some(recording.trace()));
            asking.record_usage(&Json::parse(usage.as_bytes()).unwrap());
            asking.ends(ProviderOutcome::Whole);
            assert_eq!(recording.trace().token_kinds(), kinds, "{usage}");
        }
    }

    #[test]
    fn a_usage_that_cannot_be_right_is_estimated_as_a_missing_one() {
        let most = i64::MAX;
        for (usage, used) in [
            (r#"{"prompt_tokens":3,"completion_tokens":0}"#.to_owned(), [3, 0]),
            ("null".to_owned(), [10, 5]),
            (r#"{"prompt_tokens":-10,"completion_tokens":-10}"#.to_owned(), [10, 5]),
            (r#"{"prompt_tokens":3,"completion_tokens":-1}"#.to_owned(), [10, 5]),
            (format!(r#"{{"prompt_tokens":{most},"completion_tokens":{most}}}"#), [10, 5]),
            (r#"{"prompt_tokens":18446744073709551616,"completion_tokens":1.5}"#.to_owned(), [10, 5]),
            (r#"{"prompt_tokens":"3"}"#.to_owned(), [10, 5]),
        ] {
            let recording = Traces::new(1).begin(RequestFacts::default(), false);
            let mut asking = Arc::new(Service::default()).ask(Some(recording.trace()));
            asking.sends(40);
            asking.receives();
            asking.record_usage(&Json::parse(usage.as_bytes()).unwrap());
            asking.estimate_whole(|| 20);
            asking.ends(ProviderOutcome::Whole);
            assert_eq!(recording.trace().tokens(), used, "{usage}");
        }
    }

    #[test]
    fn a_canceled_call_uses_its_request_and_a_failed_one_nothing() {
        let used = |end: fn(ProviderCallGuard)| {
            let recording = Traces::new(1).begin(RequestFacts::default(), false);
            let mut asking = Arc::new(Service::default()).ask(Some(recording.trace()));
            asking.sends(40);
            end(asking);
            recording.trace().tokens()
        };
        assert_eq!(used(drop), [10, 0]);
        let fails = |mut asking: ProviderCallGuard| {
            asking.fails(&Error::Provider { message: "broke off".into(), timeout: false });
        };
        assert_eq!(used(fails), [0, 0]);
    }

    #[test]
    fn failures_are_counted_by_time_and_cause() {
        let service = Arc::new(Service::default());
        let broken = Error::Provider { message: "broke off".into(), timeout: false };
        service.ask(None).fails(&broken);
        let mut begun = service.ask(None);
        begun.receives();
        begun.fails(&broken);
        drop(service.ask(None));
        for word in ["failed", "interrupted", "canceled"] {
            assert_eq!(of(&service, word), 1, "{word}");
        }
        assert_eq!(service.times().count, 0, "what failed says nothing of how long answers take");
    }
}
