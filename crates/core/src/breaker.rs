//! A circuit breaker: after repeated failures, calls are skipped until a cool-down ends.
//!
//! If most of the failures were calls of one client, the breaker opens for this client only: its requests may be the
//! cause, and no client can disable a plugin for the others.

use crate::error::{Explanation, PluginError, Rejection};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The settings of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// The number of failures within the window that opens the breaker, provided that at least half of the
    /// calls since the first of them failed. 0 disables the breaker.
    pub failure_threshold: usize,
    /// The time for which a failure counts.
    pub window: Duration,
    /// The cool-down: the time from opening to the next probe.
    pub cool_down: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failure_threshold: 5, window: Duration::from_secs(60), cool_down: Duration::from_secs(10) }
    }
}

/// The breaker's decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// The call is allowed: the breaker is closed.
    Closed,
    /// The call is allowed as a probe: its result closes the breaker or keeps it open.
    HalfOpen,
    /// The call is not allowed; the next probe is possible after this time.
    Open(Duration),
}

/// The state of an open breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenState {
    /// The number of failures that opened the breaker.
    pub failures: usize,
    /// The time since the breaker opened.
    pub since: Duration,
    /// The time until the next probe.
    pub next_try: Duration,
    /// The text of the last failure.
    pub cause: String,
}

/// A circuit breaker for the calls of one plugin or provider. A call costs two atomic loads while the breaker
/// is closed.
#[derive(Debug, Default)]
pub struct Breaker {
    kind: Kind,
    name: String,
    /// The model, if the breaker belongs to a provider.
    model: String,
    settings: BreakerSettings,
    /// The time of the next probe in milliseconds of [`now`]; 0 while the breaker is closed.
    retry_at: AtomicU64,
    /// Set after the first failure; calls are not counted before it.
    has_failed: AtomicBool,
    calls: AtomicU64,
    /// Set while the breaker is open for some clients only.
    is_open_for_some: AtomicBool,
    record: Mutex<Record>,
}

/// The kind of owner.
#[derive(Debug, Default, Clone, Copy)]
enum Kind {
    #[default]
    Plugin,
    Provider,
}

#[derive(Debug, Default)]
struct Record {
    /// The last failures.
    failures: VecDeque<Failure>,
    cause: String,
    /// Set while the breaker is open for every client.
    opened: Option<Instant>,
    /// The clients for which the breaker is open.
    shut_out: Vec<ShutOut>,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    at: Instant,
    /// The number of calls so far.
    calls: u64,
    /// A digest of the request, if known.
    request: Option<u64>,
    client: Option<u64>,
}

/// A client for which the breaker is open.
#[derive(Debug, Clone, Copy)]
struct ShutOut {
    client: u64,
    retry_at: u64,
}

/// The maximum number of clients for which a breaker is open; if there are more, it opens for every client.
const MAX_SHUT_OUT: usize = 64;

impl Record {
    /// Returns the client of more than half of the last failures.
    fn main_client(&self) -> Option<u64> {
        let of = |client: u64| self.failures.iter().filter(|failure| failure.client == Some(client)).count();
        let mut clients = self.failures.iter().filter_map(|failure| failure.client);
        clients.find(|client| of(*client) * 2 > self.failures.len())
    }
}

impl Breaker {
    /// Creates a closed breaker for a plugin.
    pub fn new(plugin: impl Into<String>, settings: BreakerSettings) -> Self {
        Self { name: plugin.into(), settings, ..Self::default() }
    }

    /// Creates a closed breaker for one model of a provider.
    pub fn of_model(
        provider: impl Into<String>,
        model: impl Into<String>,
        settings: BreakerSettings,
    ) -> Self {
        Self { kind: Kind::Provider, model: model.into(), ..Self::new(provider, settings) }
    }

    /// Decides on one call. If a probe never reports its result, the breaker stays open until the next probe. `client`
    /// returns a digest of the client, if it is known.
    pub fn admit(&self, client: impl FnOnce() -> Option<u64>) -> BreakerState {
        if self.has_failed.load(Relaxed) {
            self.calls.fetch_add(1, Relaxed);
        }
        let retry_at = self.retry_at.load(Relaxed);
        if retry_at == 0 {
            return match self.is_open_for_some.load(Relaxed) {
                true => client().map_or(BreakerState::Closed, |client| self.admit_client(client)),
                false => BreakerState::Closed,
            };
        }
        let now = now();
        let next = now + millis(self.settings.cool_down).max(1);
        if now >= retry_at && self.retry_at.compare_exchange(retry_at, next, Relaxed, Relaxed).is_ok() {
            return BreakerState::HalfOpen;
        }
        BreakerState::Open(Duration::from_millis(self.retry_at.load(Relaxed).saturating_sub(now)))
    }

    /// Decides on a call of a client while the breaker may be open for it.
    fn admit_client(&self, client: u64) -> BreakerState {
        let mut record = self.record.lock();
        let Some(shut_out) = record.shut_out.iter_mut().find(|one| one.client == client) else {
            return BreakerState::Closed;
        };
        let now = now();
        if now < shut_out.retry_at {
            return BreakerState::Open(Duration::from_millis(shut_out.retry_at - now));
        }
        shut_out.retry_at = now + millis(self.settings.cool_down).max(1);
        BreakerState::HalfOpen
    }

    /// Records the end of a plugin's call: its success, or its failure. A failure that the request caused counts as
    /// neither, because otherwise any client could disable the plugin for everyone.
    pub fn record(
        &self,
        admission: BreakerState,
        failure: Option<&PluginError>,
        client: impl FnOnce() -> Option<u64>,
    ) {
        match failure {
            None if admission == BreakerState::HalfOpen => self.close(client()),
            None => {}
            Some(failure) if failure.is_by_request => {}
            Some(failure) => self.fail(&failure.cause, None, client()),
        }
    }

    /// Records a success. A successful probe closes the breaker.
    pub fn record_success(&self, admission: BreakerState) {
        if admission == BreakerState::HalfOpen {
            self.close(None);
        }
    }

    /// Closes the breaker after the successful probe of a client: for every client, or for this one.
    fn close(&self, client: Option<u64>) {
        let mut record = self.record.lock();
        if record.opened.is_none() {
            record.shut_out.retain(|one| Some(one.client) != client);
            record.failures.retain(|failure| failure.client != client);
            self.is_open_for_some.store(!record.shut_out.is_empty(), Relaxed);
            return;
        }
        *record = Record::default();
        self.is_open_for_some.store(false, Relaxed);
        self.retry_at.store(0, Relaxed);
        match self.kind {
            Kind::Plugin => {
                tracing::info!(plugin = self.name, "the circuit breaker closed: the plugin works again")
            }
            Kind::Provider => {
                tracing::info!(
                    provider = self.name,
                    model = self.model,
                    "the circuit breaker closed: the provider answers again"
                );
            }
        }
    }

    /// Records a failure.
    pub fn record_failure(&self, cause: &str) {
        self.record_failure_of(cause, None);
    }

    /// Records a failure of a request, identified by a digest of it. Repeated failures of one request count
    /// once, because the request may be the cause.
    pub fn record_failure_of(&self, cause: &str, request: Option<u64>) {
        self.fail(cause, request, None);
    }

    fn fail(&self, cause: &str, request: Option<u64>, client: Option<u64>) {
        if self.opens(cause, request, client) {
            let (breaks, rest) = (self.settings.failure_threshold, self.settings.cool_down.as_secs_f64());
            let whom = if self.retry_at.load(Relaxed) == 0 { " for one client" } else { "" };
            match self.kind {
                Kind::Plugin => tracing::warn!(
                    plugin = self.name,
                    "the circuit breaker opened{whom} after {breaks} failures; the next attempt is in {rest} s"
                ),
                Kind::Provider => tracing::warn!(
                    provider = self.name,
                    model = self.model,
                    "the circuit breaker opened after {breaks} failed requests; the next attempt is in {rest} s; last \
                     failure: {cause}"
                ),
            }
        }
    }

    /// Opens the breaker permanently. Only a new breaker allows calls again.
    pub fn trip(&self, cause: &str) {
        let mut record = self.record.lock();
        record.cause = cause.to_owned();
        record.opened.get_or_insert_with(Instant::now);
        self.retry_at.store(FOR_GOOD, Relaxed);
        tracing::error!(
            plugin = self.name,
            "the circuit breaker opened until the plugin is saved again: {cause}"
        );
    }

    /// Returns the rejection for a call that is not allowed, with status 503; `rest` is the time until the next
    /// probe.
    pub fn rejection(&self, rest: Duration) -> Rejection {
        let retry_after = Some(seconds(rest));
        Rejection { retry_after, ..Rejection::new(self.message(rest)).with_status(503) }
    }

    /// Returns the explanation for a call that is not allowed. The text for clients omits the last failure.
    pub fn explains(&self, rest: Duration) -> Explanation {
        Explanation::new(self.public_message(rest), self.message(rest))
    }

    /// Returns the error text for a call that is not allowed, in full.
    pub fn message(&self, rest: Duration) -> String {
        let public = self.public_message(rest);
        match self.kind {
            Kind::Plugin => public,
            Kind::Provider => format!("{public} (last failure: {})", self.record.lock().cause),
        }
    }

    fn public_message(&self, rest: Duration) -> String {
        let (name, seconds) = (&self.name, seconds(rest));
        match self.kind {
            Kind::Plugin => {
                format!(
                    "cannot call the plugin `{name}`: its circuit breaker is open after repeated failures; the next attempt \
                     is in {seconds} s"
                )
            }
            Kind::Provider => {
                let model = &self.model;
                format!(
                    "cannot call model {model} of provider {name}: its circuit breaker is open after repeated \
                     failures; the next attempt is in {seconds} s"
                )
            }
        }
    }

    /// Records a failure and returns `true` if it opens the breaker.
    fn opens(&self, cause: &str, request: Option<u64>, client: Option<u64>) -> bool {
        if self.settings.failure_threshold == 0 {
            return false;
        }
        self.has_failed.store(true, Relaxed);
        let mut record = self.record.lock();
        record.cause = cause.to_owned();
        if record.opened.is_some() || record.shut_out.iter().any(|one| Some(one.client) == client) {
            return false;
        }
        let (at, calls) = (Instant::now(), self.calls.load(Relaxed));
        let window = self.settings.window;
        let kept = self.settings.failure_threshold;
        record.failures.retain(|failure| at.duration_since(failure.at) <= window);
        if request.is_some() && record.failures.iter().any(|known| known.request == request) {
            // The call is not counted: it is neither a further failure nor a success.
            let _ = self.calls.fetch_update(Relaxed, Relaxed, |calls| calls.checked_sub(1));
            return false;
        }
        record.failures.push_back(Failure { at, calls, request, client });
        while record.failures.len() > kept {
            record.failures.pop_front();
        }
        let first = record.failures.front().map_or(calls, |failure| failure.calls);
        let calls_since = calls.saturating_sub(first) + 1;
        if record.failures.len() < kept || calls_since > 2 * kept as u64 {
            return false;
        }
        let now = now();
        let retry_at = now + millis(self.settings.cool_down).max(1);
        // Clients that have not called since are forgotten.
        let forgotten = now.saturating_sub(millis(window));
        record.shut_out.retain(|one| one.retry_at > forgotten);
        match record.main_client() {
            Some(client) if record.shut_out.len() < MAX_SHUT_OUT => {
                record.failures.retain(|failure| failure.client != Some(client));
                record.shut_out.push(ShutOut { client, retry_at });
                self.is_open_for_some.store(true, Relaxed);
            }
            _ => {
                record.opened = Some(at);
                self.retry_at.store(retry_at, Relaxed);
            }
        }
        true
    }

    /// Returns the state of the breaker while it is open for every client, or `None`.
    pub fn open(&self) -> Option<OpenState> {
        let retry_at = self.retry_at.load(Relaxed);
        let record = self.record.lock();
        Some(OpenState {
            failures: record.failures.len(),
            since: record.opened?.elapsed(),
            next_try: Duration::from_millis(retry_at.saturating_sub(now())),
            cause: record.cause.clone(),
        })
    }
}

/// A time that [`now`] never reaches.
const FOR_GOOD: u64 = u64::MAX >> 2;

/// Returns whole seconds, at least 1, for `retry-after`.
fn seconds(rest: Duration) -> f64 {
    rest.as_secs_f64().ceil().max(1.0)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX >> 1)
}

/// Returns the milliseconds since the first call, plus one: never 0.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    millis(START.get_or_init(Instant::now).elapsed()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker(breaks: usize, rest: Duration) -> Breaker {
        Breaker::new(
            "x",
            BreakerSettings { failure_threshold: breaks, cool_down: rest, ..BreakerSettings::default() },
        )
    }

    const LONG: Duration = Duration::from_secs(3_600);

    fn break_once(breaker: &Breaker) -> bool {
        assert_eq!(breaker.admit(|| None), BreakerState::Closed);
        breaker.opens("a bug", None, None)
    }

    #[test]
    fn a_breaker_opens_at_its_threshold_and_records_the_cause() {
        let breaker = breaker(3, LONG);
        assert!(!break_once(&breaker) && !break_once(&breaker));
        assert_eq!(breaker.open(), None);
        assert!(break_once(&breaker));
        assert!(
            matches!(breaker.admit(|| None), BreakerState::Open(rest) if rest > Duration::from_secs(3_500))
        );
        let open = breaker.open().unwrap();
        assert_eq!((open.failures, open.cause.as_str()), (3, "a bug"));
    }

    #[test]
    fn repeated_failures_of_one_request_count_once() {
        let breaker = breaker(3, LONG);
        for _ in 0..10 {
            assert_eq!(breaker.admit(|| None), BreakerState::Closed);
            assert!(!breaker.opens("its prompt", Some(1), None));
        }
        for request in [2, 2, 3] {
            assert_eq!(breaker.admit(|| None), BreakerState::Closed);
            assert_eq!(breaker.opens("the service", Some(request), None), request == 3);
        }
    }

    #[test]
    fn a_breaker_stays_closed_when_most_calls_succeed() {
        let breaker = breaker(3, LONG);
        for _ in 0..100 {
            assert!(!break_once(&breaker));
            for _ in 0..3 {
                assert_eq!(breaker.admit(|| None), BreakerState::Closed);
            }
        }
    }

    #[test]
    fn failures_outside_the_window_do_not_count() {
        let settings =
            BreakerSettings { failure_threshold: 2, window: Duration::from_millis(1), cool_down: LONG };
        let breaker = Breaker::new("x", settings);
        for _ in 0..5 {
            assert!(!break_once(&breaker));
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    #[test]
    fn a_half_open_breaker_admits_one_call_and_closes_on_success() {
        let breaker = breaker(1, Duration::from_millis(20));
        assert!(break_once(&breaker));
        assert!(matches!(breaker.admit(|| None), BreakerState::Open(_)));
        std::thread::sleep(Duration::from_millis(30));
        let probe = breaker.admit(|| None);
        assert_eq!(probe, BreakerState::HalfOpen);
        assert!(matches!(breaker.admit(|| None), BreakerState::Open(_)), "only one tries");
        assert!(!breaker.opens("still", None, None), "it was open already");
        assert_eq!(breaker.open().unwrap().cause, "still");
        std::thread::sleep(Duration::from_millis(30));
        let probe = breaker.admit(|| None);
        breaker.record_success(probe);
        assert_eq!((breaker.open(), breaker.admit(|| None)), (None, BreakerState::Closed));
    }

    #[test]
    fn a_threshold_of_zero_disables_the_breaker() {
        let breaker = breaker(0, LONG);
        assert!((0..100).all(|_| !break_once(&breaker)));
    }

    #[test]
    fn failures_of_one_client_open_the_breaker_for_it_alone() {
        let breaker = breaker(3, Duration::from_millis(20));
        let fails = |client: u64| {
            assert_eq!(breaker.admit(|| Some(client)), BreakerState::Closed);
            breaker.opens("a bug", None, Some(client))
        };
        assert!(!fails(1) && !fails(1) && fails(1));
        assert!(matches!(breaker.admit(|| Some(1)), BreakerState::Open(_)));
        assert_eq!(breaker.admit(|| Some(2)), BreakerState::Closed);
        assert_eq!(breaker.admit(|| None), BreakerState::Closed);
        assert_eq!(breaker.open(), None, "it is closed for the others");
        std::thread::sleep(Duration::from_millis(30));
        let probe = breaker.admit(|| Some(1));
        assert_eq!(probe, BreakerState::HalfOpen);
        breaker.record(probe, None, || Some(1));
        assert_eq!(breaker.admit(|| Some(1)), BreakerState::Closed);
    }

    #[test]
    fn the_success_of_a_client_keeps_the_breaker_open_for_another() {
        let breaker = breaker(1, LONG);
        assert!([1, 2].iter().all(|client| breaker.opens("a bug", None, Some(*client))));
        breaker.close(Some(1));
        assert_eq!(breaker.admit(|| Some(1)), BreakerState::Closed);
        assert!(matches!(breaker.admit(|| Some(2)), BreakerState::Open(_)));
    }

    #[test]
    fn failures_of_several_clients_open_the_breaker_for_all() {
        let breaker = breaker(4, LONG);
        for (client, opens) in [(1, false), (1, false), (2, false), (3, true)] {
            assert_eq!(breaker.admit(|| Some(client)), BreakerState::Closed);
            assert_eq!(breaker.opens("a bug", None, Some(client)), opens, "{client}");
        }
        assert!(matches!(breaker.admit(|| Some(9)), BreakerState::Open(_)));
        assert!(matches!(breaker.admit(|| None), BreakerState::Open(_)));
    }

    #[test]
    fn the_client_with_most_failures_is_shut_out_and_the_others_start_afresh() {
        let breaker = breaker(5, LONG);
        let fails = |client: u64| {
            assert_eq!(breaker.admit(|| Some(client)), BreakerState::Closed, "{client}");
            breaker.opens("a bug", None, Some(client))
        };
        assert!(!fails(1) && !fails(1) && !fails(1) && !fails(1));
        assert!(fails(2), "for client 1");
        assert!(matches!(breaker.admit(|| Some(1)), BreakerState::Open(_)));
        assert!(!fails(2) && !fails(3) && !fails(4));
        // The plugin fails for everybody.
        assert!(fails(3));
        assert!(matches!(breaker.admit(|| Some(9)), BreakerState::Open(_)));
    }
}
