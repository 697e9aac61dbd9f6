//! Metrics of the calls of one provider.

use super::balancer::Balancer;
use super::histogram::{Histogram, HistogramSnapshot, counted};
use crate::chat::response::cached_tokens;
use crate::error::Error;
use crate::error_code::message_of;
use crate::text::shortened;
use crate::trace::{CalledModel, Trace};
use compact_str::CompactString;
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
    pub fn ask(
        self: &Arc<Self>,
        trace: Option<&Arc<Trace>>,
        CalledModel { provider, model }: CalledModel<'_>,
    ) -> ProviderCallGuard {
        self.running.fetch_add(1, Relaxed);
        ProviderCallGuard {
            service: self.clone(),
            began: Instant::now(),
            has_begun: false,
            is_over: false,
            tokens: None,
            is_missing: [true; 2],
            token_kinds: [0, 0],
            trace: trace.map(|trace| (trace.clone(), [provider.into(), model.into()])),
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
    /// Set for each of them that is estimated instead.
    is_missing: [bool; 2],
    /// Those from a cache and of reasoning.
    token_kinds: [u64; 2],
    /// With the provider and the name of the model there.
    trace: Option<(Arc<Trace>, [CompactString; 2])>,
    /// The estimated prompt and completion tokens, for an answer without a usage.
    estimate: [u64; 2],
}

/// The estimated number of bytes of a token.
const BYTES_PER_TOKEN: usize = 4;
/// The size of a picture, a recording or another file in a request for an estimate, in bytes of text.
const FILE_SIZE: usize = 1_000 * BYTES_PER_TOKEN;
/// The maximum number of tokens of one answer; a usage with more cannot be right.
const MAX_TOKENS: u64 = 1 << 40;

impl ProviderCallGuard {
    /// Estimates the tokens of the request from its texts, in case that the answer has no usage. Files in it are looked for
    /// only if somebody pays for the tokens.
    pub fn sends(&mut self, body: &[u8], is_metered: bool) {
        let size = if is_metered { text_size(body) } else { body.len() };
        self.estimate[0] = u64::try_from(size / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
    }

    /// Estimates the tokens of a complete answer without a usage from the length of its texts in bytes.
    pub fn estimate_whole(&mut self, bytes: impl FnOnce() -> usize) {
        if self.is_missing[1] {
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
        let total = count("total_tokens");
        if read.or(written).is_some() && self.takes(read.unwrap_or(0), written, total) {
            // Most usages have no other counts, which are looked for only if there is another field.
            let plain = [read, written, total].into_iter().flatten().count();
            self.token_kinds = if usage.len() > plain { token_kinds(usage) } else { [0, 0] };
        }
    }

    /// Records the prompt, completion and total tokens of a usage without further counts.
    pub fn record_tokens(&mut self, [read, written, total]: [u64; 3]) {
        if self.takes(read, Some(written), Some(total)) {
            self.token_kinds = [0, 0];
        }
    }

    /// Takes counts that can be right. Some services count thoughts in the total only. A count of no tokens is one that is
    /// missing, unless an answer has no count of written ones, as that of embeddings.
    fn takes(&mut self, read: u64, written: Option<u64>, total: Option<u64>) -> bool {
        let counts = [read, written.unwrap_or(0), total.unwrap_or(0)];
        if counts.iter().any(|count| *count > MAX_TOKENS) {
            return false;
        }
        let all = written.map_or(0, |written| written.max(counts[2].saturating_sub(read)));
        self.tokens = Some([read, all]);
        self.is_missing = [read == 0, all == 0 && (written.is_some() || read == 0)];
        true
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
        if let Some((trace, [provider, model])) = &self.trace {
            // A client that leaves before the usage is sent pays for what was read and written until then.
            let was_read = self.has_begun || ending == ProviderOutcome::Canceled;
            if was_read || self.tokens.is_some() {
                let counts = self.tokens.unwrap_or([0; 2]);
                let tokens =
                    [0, 1].map(|kind| if self.is_missing[kind] { self.estimate } else { counts }[kind]);
                trace.use_tokens(CalledModel { provider, model }, tokens, self.token_kinds);
            }
        }
        for (sum, tokens) in service.tokens.iter().zip(self.tokens.into_iter().flatten()) {
            sum.fetch_add(tokens, Relaxed);
        }
    }
}

/// Returns the length of the texts of a request in bytes. A file in base64, or a body that is not JSON, has a fixed one.
fn text_size(body: &[u8]) -> usize {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte);
    let size =
        |text: &[u8]| match text.len() > FILE_SIZE && text[text.len() - FILE_SIZE..].iter().all(is_base64) {
            true => FILE_SIZE,
            false => text.len(),
        };
    if !body.trim_ascii_start().starts_with(b"{") {
        return body.len().min(FILE_SIZE);
    }
    let (mut begin, mut total) = (0, 0);
    for quote in memchr::memchr_iter(b'"', body).chain([body.len()]) {
        total += size(&body[begin..quote]) + usize::from(quote < body.len());
        begin = quote + 1;
    }
    total
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

    const BODY: &[u8] = br#"{"model":"gpt","messages":[],"user":"a"}"#;
    const CALLED: CalledModel<'_> = CalledModel { provider: "openai", model: "gpt" };

    fn of(service: &Service, word: &str) -> u64 {
        service.outcomes().into_iter().find(|(known, _)| *known == word).unwrap().1
    }

    #[test]
    fn a_call_ends_once_and_its_last_usage_counts() {
        let service = Arc::new(Service::default());
        let mut asking = service.ask(None, CALLED);
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
            let mut asking = Arc::new(Service::default()).ask(Some(recording.trace()), CALLED);
            asking.record_usage(&Json::parse(usage.as_bytes()).unwrap());
            asking.ends(ProviderOutcome::Whole);
            assert_eq!(recording.trace().token_kinds(), kinds, "{usage}");
        }
    }

    #[test]
    fn a_usage_that_cannot_be_right_is_estimated_as_a_missing_one() {
        let most = i64::MAX;
        for (usage, used) in [
            (r#"{"prompt_tokens":3,"completion_tokens":0}"#.to_owned(), [3, 5]),
            (r#"{"prompt_tokens":0,"completion_tokens":7}"#.to_owned(), [10, 7]),
            (r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#.to_owned(), [10, 5]),
            // Of embeddings, and with thoughts that only the total counts.
            (r#"{"prompt_tokens":3,"total_tokens":3}"#.to_owned(), [3, 0]),
            (r#"{"prompt_tokens":3,"completion_tokens":4,"total_tokens":107}"#.to_owned(), [3, 104]),
            ("null".to_owned(), [10, 5]),
            (r#"{"prompt_tokens":-10,"completion_tokens":-10}"#.to_owned(), [10, 5]),
            (r#"{"prompt_tokens":3,"completion_tokens":-1}"#.to_owned(), [10, 5]),
            (format!(r#"{{"prompt_tokens":{most},"completion_tokens":{most}}}"#), [10, 5]),
            (r#"{"prompt_tokens":18446744073709551616,"completion_tokens":1.5}"#.to_owned(), [10, 5]),
            (r#"{"prompt_tokens":"3"}"#.to_owned(), [10, 5]),
        ] {
            let recording = Traces::new(1).begin(RequestFacts::default(), false);
            let mut asking = Arc::new(Service::default()).ask(Some(recording.trace()), CALLED);
            asking.sends(BODY, true);
            asking.receives();
            asking.record_usage(&Json::parse(usage.as_bytes()).unwrap());
            asking.estimate_whole(|| 20);
            asking.ends(ProviderOutcome::Whole);
            assert_eq!(recording.trace().tokens(), used, "{usage}");
        }
    }

    #[test]
    fn a_file_in_a_request_counts_as_a_page_of_text() {
        let body = |data: &str| format!(r#"{{"content":"Hello","image":"data:image/png;base64,{data}"}}"#);
        let (none, photo) = (body(""), body(&"aB+/".repeat(1_000_000)));
        assert_eq!(text_size(none.as_bytes()), none.len());
        assert!(text_size(photo.as_bytes()) < none.len() + FILE_SIZE);
        let words = body(&"a b ".repeat(1_000_000));
        assert_eq!(text_size(words.as_bytes()), words.len());
        assert_eq!((text_size(&[0xff; 3_000_000]), text_size(b"--x")), (FILE_SIZE, 3));
    }

    #[test]
    fn a_canceled_call_uses_its_request_and_a_failed_one_nothing() {
        let used = |end: fn(ProviderCallGuard)| {
            let recording = Traces::new(1).begin(RequestFacts::default(), false);
            let mut asking = Arc::new(Service::default()).ask(Some(recording.trace()), CALLED);
            asking.sends(BODY, true);
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
        service.ask(None, CALLED).fails(&broken);
        let mut begun = service.ask(None, CALLED);
        begun.receives();
        begun.fails(&broken);
        drop(service.ask(None, CALLED));
        for word in ["failed", "interrupted", "canceled"] {
            assert_eq!(of(&service, word), 1, "{word}");
        }
        assert_eq!(service.times().count, 0, "what failed says nothing of how long answers take");
    }
}
