//! A circuit breaker: what breaks again and again is left alone for a while, then tried again.

use crate::fault::{Explanation, Refusal};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The rules by which a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Breakages within the window that open it, when at least half of the calls since the first of them
    /// broke; 0: it never opens.
    pub breaks: usize,
    /// The time for which a breakage counts.
    pub window: Duration,
    /// The time for which it rests before one call may try again.
    pub rest: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { breaks: 5, window: Duration::from_secs(60), rest: Duration::from_secs(10) }
    }
}

/// The decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Usual,
    /// It may, and decides whether the breaker closes.
    Probe,
    /// It may not, for this long.
    Rests(Duration),
}

/// A breaker that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Breakages that opened it.
    pub breaks: usize,
    /// The time for which it has been open.
    pub since: Duration,
    /// Until the next try.
    pub next_try: Duration,
    /// The last breakage.
    pub cause: String,
}

/// Watches the calls of one plugin or provider. Asking it costs two loads while all goes well.
#[derive(Debug, Default)]
pub struct Breaker {
    kind: Kind,
    name: String,
    /// The model of a provider.
    model: String,
    settings: BreakerSettings,
    /// Milliseconds of the clock below at which the next try is allowed; 0 while it is closed.
    retry_at: AtomicU64,
    /// Set once a call has failed; before that calls are not counted.
    broke: AtomicBool,
    calls: AtomicU64,
    record: Mutex<Record>,
}

/// The owner of the calls.
#[derive(Debug, Default, Clone, Copy)]
enum Kind {
    #[default]
    Plugin,
    Provider,
}

#[derive(Debug, Default)]
struct Record {
    /// The last breakages: when, how many calls there had been, and at which request where that is known.
    breaks: VecDeque<(Instant, u64, Option<u64>)>,
    cause: String,
    opened: Option<Instant>,
}

impl Breaker {
    /// A closed one, for a plugin that the log will name.
    pub fn new(plugin: impl Into<String>, settings: BreakerSettings) -> Self {
        Self { name: plugin.into(), settings, ..Self::default() }
    }

    /// Creates a closed breaker for a model of a provider.
    pub fn of_model(
        provider: impl Into<String>,
        model: impl Into<String>,
        settings: BreakerSettings,
    ) -> Self {
        Self { kind: Kind::Provider, model: model.into(), ..Self::new(provider, settings) }
    }

    /// Asks for one call. A probe that is never heard of again leaves it open until the next one.
    pub fn admit(&self) -> Admission {
        if self.broke.load(Relaxed) {
            self.calls.fetch_add(1, Relaxed);
        }
        let retry_at = self.retry_at.load(Relaxed);
        if retry_at == 0 {
            return Admission::Usual;
        }
        let now = now();
        let next = now + millis(self.settings.rest).max(1);
        if now >= retry_at && self.retry_at.compare_exchange(retry_at, next, Relaxed, Relaxed).is_ok() {
            return Admission::Probe;
        }
        Admission::Rests(Duration::from_millis(self.retry_at.load(Relaxed).saturating_sub(now)))
    }

    /// A call of this admission came to a good end.
    pub fn went_well(&self, admission: Admission) {
        if admission == Admission::Probe {
            *self.record.lock() = Record::default();
            self.retry_at.store(0, Relaxed);
            match self.kind {
                Kind::Plugin => tracing::info!(plugin = self.name, "it works again and is used again"),
                Kind::Provider => {
                    tracing::info!(
                        provider = self.name,
                        model = self.model,
                        "it answers again and is used again"
                    );
                }
            }
        }
    }

    /// A call broke.
    pub fn broke(&self, cause: &str) {
        self.broke_at(cause, None);
    }

    /// Records a failure at a request, known by a digest of it. One request that fails again and again counts once:
    /// it may be the request's fault.
    pub fn broke_at(&self, cause: &str, request: Option<u64>) {
        if self.opens(cause, request) {
            let (breaks, rest) = (self.settings.breaks, self.settings.rest.as_secs_f64());
            match self.kind {
                Kind::Plugin => tracing::warn!(
                    plugin = self.name,
                    "it broke {breaks} times and rests: a call tries again in {rest} s"
                ),
                Kind::Provider => tracing::warn!(
                    provider = self.name,
                    model = self.model,
                    "it failed at {breaks} requests and is left alone: a call tries again in {rest} s; last: {cause}"
                ),
            }
        }
    }

    /// Opens it for good, whatever the settings say: only a new one lets calls through again.
    pub fn trip(&self, cause: &str) {
        let mut record = self.record.lock();
        record.cause = cause.to_owned();
        record.opened.get_or_insert_with(Instant::now);
        self.retry_at.store(FOR_GOOD, Relaxed);
        tracing::error!(plugin = self.name, "{cause}: it is not used any more until it is saved again");
    }

    /// The refusal of a call that is not let through.
    pub fn refusal(&self, rest: Duration) -> Refusal {
        let retry_after = Some(seconds(rest));
        Refusal { retry_after, ..Refusal::new(self.says(rest)).with_status(503) }
    }

    /// The same for operators and, without the last failure, for clients.
    pub fn explains(&self, rest: Duration) -> Explanation {
        let full = self.says(rest);
        let public = full.split_once(" (last failure: ").map_or(full.as_str(), |(public, _)| public);
        Explanation::new(public, full.clone())
    }

    /// The text in place of a call that is not let through.
    pub fn says(&self, rest: Duration) -> String {
        let (name, seconds) = (&self.name, seconds(rest));
        match self.kind {
            Kind::Plugin => {
                format!(
                    "the plugin `{name}` broke again and again and rests; it is tried again in {seconds} s"
                )
            }
            Kind::Provider => {
                let (cause, model) = (&self.record.lock().cause, &self.model);
                format!(
                    "provider {name} failed again and again at model {model}, which is left alone; it is tried again \
                     in {seconds} s (last failure: {cause})"
                )
            }
        }
    }

    /// Returns `true` if this breakage opens it.
    fn opens(&self, cause: &str, request: Option<u64>) -> bool {
        if self.settings.breaks == 0 {
            return false;
        }
        self.broke.store(true, Relaxed);
        let mut record = self.record.lock();
        record.cause = cause.to_owned();
        if record.opened.is_some() {
            return false;
        }
        let (now, calls) = (Instant::now(), self.calls.load(Relaxed));
        let window = self.settings.window;
        let kept = self.settings.breaks;
        record.breaks.retain(|(at, ..)| now.duration_since(*at) <= window);
        if request.is_some() && record.breaks.iter().any(|(.., known)| *known == request) {
            // As if this call had not been: it is neither a further failure nor a success.
            let _ = self.calls.fetch_update(Relaxed, Relaxed, |calls| calls.checked_sub(1));
            return false;
        }
        record.breaks.push_back((now, calls, request));
        while record.breaks.len() > kept {
            record.breaks.pop_front();
        }
        let first = record.breaks.front().map_or(calls, |(_, calls, _)| *calls);
        let calls_since = calls.saturating_sub(first) + 1;
        if record.breaks.len() < kept || calls_since > 2 * kept as u64 {
            return false;
        }
        record.opened = Some(now);
        self.retry_at.store(self::now() + millis(self.settings.rest).max(1), Relaxed);
        true
    }

    /// The state while it is open.
    pub fn open(&self) -> Option<Open> {
        let retry_at = self.retry_at.load(Relaxed);
        let record = self.record.lock();
        Some(Open {
            breaks: record.breaks.len(),
            since: record.opened?.elapsed(),
            next_try: Duration::from_millis(retry_at.saturating_sub(now())),
            cause: record.cause.clone(),
        })
    }
}

/// The clock never comes so far.
const FOR_GOOD: u64 = u64::MAX >> 2;

/// Whole seconds, as `retry-after` counts them.
fn seconds(rest: Duration) -> f64 {
    rest.as_secs_f64().ceil().max(1.0)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX >> 1)
}

/// Milliseconds since somebody first asked, and one more: never 0.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    millis(START.get_or_init(Instant::now).elapsed()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker(breaks: usize, rest: Duration) -> Breaker {
        Breaker::new("x", BreakerSettings { breaks, rest, ..BreakerSettings::default() })
    }

    const LONG: Duration = Duration::from_secs(3_600);

    fn break_once(breaker: &Breaker) -> bool {
        assert_eq!(breaker.admit(), Admission::Usual);
        breaker.opens("a bug", None)
    }

    #[test]
    fn it_opens_after_so_many_breakages_and_says_why() {
        let breaker = breaker(3, LONG);
        assert!(!break_once(&breaker) && !break_once(&breaker));
        assert_eq!(breaker.open(), None);
        assert!(break_once(&breaker));
        assert!(matches!(breaker.admit(), Admission::Rests(rest) if rest > Duration::from_secs(3_500)));
        let open = breaker.open().unwrap();
        assert_eq!((open.breaks, open.cause.as_str()), (3, "a bug"));
    }

    #[test]
    fn one_request_that_always_fails_counts_once() {
        let breaker = breaker(3, LONG);
        for _ in 0..10 {
            assert_eq!(breaker.admit(), Admission::Usual);
            assert!(!breaker.opens("its prompt", Some(1)));
        }
        for request in [2, 2, 3] {
            assert_eq!(breaker.admit(), Admission::Usual);
            assert_eq!(breaker.opens("the service", Some(request)), request == 3);
        }
    }

    #[test]
    fn what_mostly_goes_well_stays_in_use() {
        let breaker = breaker(3, LONG);
        for _ in 0..100 {
            assert!(!break_once(&breaker));
            for _ in 0..3 {
                assert_eq!(breaker.admit(), Admission::Usual);
            }
        }
    }

    #[test]
    fn old_breakages_do_not_count() {
        let settings = BreakerSettings { breaks: 2, window: Duration::from_millis(1), rest: LONG };
        let breaker = Breaker::new("x", settings);
        for _ in 0..5 {
            assert!(!break_once(&breaker));
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    #[test]
    fn one_call_at_a_time_tries_again_and_closes_it() {
        let breaker = breaker(1, Duration::from_millis(20));
        assert!(break_once(&breaker));
        assert!(matches!(breaker.admit(), Admission::Rests(_)));
        std::thread::sleep(Duration::from_millis(30));
        let probe = breaker.admit();
        assert_eq!(probe, Admission::Probe);
        assert!(matches!(breaker.admit(), Admission::Rests(_)), "only one tries");
        assert!(!breaker.opens("still", None), "it was open already");
        assert_eq!(breaker.open().unwrap().cause, "still");
        std::thread::sleep(Duration::from_millis(30));
        let probe = breaker.admit();
        breaker.went_well(probe);
        assert_eq!((breaker.open(), breaker.admit()), (None, Admission::Usual));
    }

    #[test]
    fn with_no_breakages_allowed_for_it_never_opens() {
        let breaker = breaker(0, LONG);
        assert!((0..100).all(|_| !break_once(&breaker)));
    }
}
