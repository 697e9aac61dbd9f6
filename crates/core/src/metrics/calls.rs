//! Metrics of a plugin's calls, which persist across reloads.

use super::histogram::{Histogram, HistogramSnapshot, counted};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_json::{Json, Object};

/// The number of first calls that are always timed; reading the clock twice takes a tenth of a small hook.
const ALL_MEASURED: u64 = 64;
/// The interval at which later calls are timed: one in this many.
const MEASURED: u64 = 8;
/// The thresholds above which a call is slow: in operations, and in nanoseconds for a timed call.
const SLOW: (u64, u64) = (10_000, 1_000_000);

/// The cost of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCost {
    /// The number of interpreter operations.
    pub operations: u64,
    /// The peak memory in bytes.
    pub memory: u64,
    /// The memory in bytes that was allocated and not freed at the end of the call.
    pub kept: u64,
    /// The time spent waiting.
    pub waited: Duration,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The hook returned a value for the next filter.
    Continued,
    /// The hook returned a value that ends its chain.
    Skipped,
    /// The hook refused.
    Refused,
    /// The hook refused, and the rejection was ignored by the failure policy.
    RejectionIgnored,
    /// The hook failed: a bug, an exceeded budget or an invalid return value.
    Failed,
    /// The hook failed, and the failure was ignored by the failure policy.
    ErrorIgnored,
    /// The hook of a filter in audit mode returned a value that would have ended its chain.
    WouldSkip,
    /// The hook of a filter in audit mode would have refused.
    WouldRefuse,
    /// The hook of a filter in audit mode failed.
    WouldFail,
}

/// All outcomes, in the order of the counters.
const ENDINGS: [CallOutcome; 9] = [
    CallOutcome::Continued,
    CallOutcome::Skipped,
    CallOutcome::Refused,
    CallOutcome::RejectionIgnored,
    CallOutcome::Failed,
    CallOutcome::ErrorIgnored,
    CallOutcome::WouldSkip,
    CallOutcome::WouldRefuse,
    CallOutcome::WouldFail,
];

impl CallOutcome {
    /// Returns the name of the outcome in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Continued => "continue",
            Self::Skipped => "skip",
            Self::Refused => "refused",
            Self::RejectionIgnored | Self::ErrorIgnored => "ignored",
            Self::Failed => "failed",
            Self::WouldSkip => "would_skip",
            Self::WouldRefuse => "would_refuse",
            Self::WouldFail => "would_fail",
        }
    }

    /// Returns the same outcome of a filter in audit mode.
    #[must_use]
    pub fn audited(self) -> Self {
        match self {
            Self::Skipped => Self::WouldSkip,
            Self::Refused | Self::RejectionIgnored => Self::WouldRefuse,
            Self::Failed | Self::ErrorIgnored => Self::WouldFail,
            other => other,
        }
    }

    fn is_breakage(self) -> bool {
        matches!(self, Self::Failed | Self::ErrorIgnored | Self::WouldFail)
    }
}

/// The metrics of one plugin by the name of its hooks and tools.
#[derive(Debug, Default)]
pub struct PluginMetrics(Mutex<BTreeMap<String, Arc<CallMetrics>>>);

impl PluginMetrics {
    /// Returns the counter of a hook or tool.
    pub fn of(&self, name: &str) -> Arc<CallMetrics> {
        let mut metrics_by_name = self.0.lock();
        match metrics_by_name.get(name) {
            Some(call_metrics) => call_metrics.clone(),
            None => metrics_by_name.entry(name.to_owned()).or_default().clone(),
        }
    }

    /// Returns the sums of the hooks and tools called so far, by name.
    pub fn sums(&self) -> Vec<(String, Sum)> {
        let metrics_by_name = self.0.lock();
        let sums = metrics_by_name.iter().map(|(name, call_metrics)| (name.clone(), call_metrics.sum()));
        sums.filter(|(_, sum)| sum.calls > 0).collect()
    }

    /// Returns all counters, by name.
    pub fn metrics_by_name(&self) -> Vec<(String, Arc<CallMetrics>)> {
        self.0.lock().iter().map(|(name, call_metrics)| (name.clone(), call_metrics.clone())).collect()
    }
}

/// A counter for the calls of one hook or tool; can be updated from any thread.
#[derive(Debug)]
pub struct CallMetrics {
    /// The number of finished calls by outcome.
    ended: [AtomicU64; ENDINGS.len()],
    /// The number of calls skipped because the circuit breaker is open.
    rested: AtomicU64,
    operations: AtomicU64,
    most_operations: AtomicU64,
    most_memory: AtomicU64,
    /// The running times of the timed calls.
    times: Histogram,
    longest: AtomicU64,
    slow: AtomicBool,
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            ended: Default::default(),
            rested: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            most_operations: AtomicU64::new(0),
            most_memory: AtomicU64::new(0),
            times: Histogram::of_scripts(),
            longest: AtomicU64::new(0),
            slow: AtomicBool::new(false),
        }
    }
}

/// The start of a call, with the time if the call is timed.
#[derive(Debug)]
pub struct CallTimer(Option<Instant>);

impl CallMetrics {
    /// Starts a call.
    pub fn begin(&self) -> CallTimer {
        // Nearly all calls continue, and one load is cheaper than a sum.
        let calls = self.ended[CallOutcome::Continued as usize].load(Relaxed);
        let is_timed = calls < ALL_MEASURED || calls.is_multiple_of(MEASURED) || self.is_slow();
        CallTimer(is_timed.then(Instant::now))
    }

    /// Ends a call.
    pub fn end(&self, timing: &CallTimer, spent: CallCost, ending: CallOutcome) {
        self.operations.fetch_add(spent.operations, Relaxed);
        raise(&self.most_operations, spent.operations);
        raise(&self.most_memory, spent.memory);
        self.ended[ending as usize].fetch_add(1, Relaxed);
        let mut slow = (spent.operations > SLOW.0).then_some(true);
        if let CallTimer(Some(began)) = timing {
            let own = began.elapsed().saturating_sub(spent.waited);
            let own = u64::try_from(own.as_nanos()).unwrap_or(u64::MAX);
            self.times.add_nanoseconds(own);
            raise(&self.longest, own);
            slow = slow.or(Some(own > SLOW.1));
        }
        if let Some(slow) = slow.filter(|slow| *slow != self.is_slow()) {
            self.slow.store(slow, Relaxed);
        }
    }

    /// Counts a call that was skipped because the circuit breaker is open.
    pub fn record_skipped(&self) {
        self.rested.fetch_add(1, Relaxed);
    }

    /// Returns the number of calls for each outcome, with its name; `breaker_open` counts skipped calls.
    pub fn outcomes(&self) -> Vec<(&'static str, u64)> {
        let mut outcomes: Vec<(&'static str, u64)> = Vec::new();
        for (ending, count) in ENDINGS.iter().zip(counted(&self.ended)) {
            match outcomes.iter_mut().find(|(word, _)| *word == ending.as_str()) {
                Some((_, sum)) => *sum += count,
                None => outcomes.push((ending.as_str(), count)),
            }
        }
        outcomes.push(("breaker_open", self.rested.load(Relaxed)));
        outcomes
    }

    /// Returns the distribution of running times of the timed calls.
    pub fn times(&self) -> HistogramSnapshot {
        self.times.read()
    }

    /// Returns `true` if the last timed call took a millisecond or more, so the next one should run on a
    /// separate thread.
    pub fn is_slow(&self) -> bool {
        self.slow.load(Relaxed)
    }

    /// Records that a call that was not timed was slow.
    pub fn was_slow(&self) {
        self.slow.store(true, Relaxed);
    }

    /// Returns the sums so far.
    pub fn sum(&self) -> Sum {
        let ended = counted(&self.ended);
        let breakages = ENDINGS.iter().zip(ended).filter(|(ending, _)| ending.is_breakage());
        let (measured, nanoseconds) = self.times.sums();
        Sum {
            calls: ended.iter().sum(),
            broken: breakages.map(|(_, count)| count).sum(),
            operations: self.operations.load(Relaxed),
            most_operations: self.most_operations.load(Relaxed),
            most_memory: self.most_memory.load(Relaxed),
            measured,
            nanoseconds,
            longest: self.longest.load(Relaxed),
        }
    }
}

/// Raises a maximum. New maxima are rare, and a load is cheaper than a write.
fn raise(height: &AtomicU64, value: u64) {
    if value > height.load(Relaxed) {
        height.fetch_max(value, Relaxed);
    }
}

/// The sums of the calls of a hook or tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of finished calls.
    pub calls: u64,
    /// The number of failed calls.
    pub broken: u64,
    /// The number of operations of all calls.
    pub operations: u64,
    /// The maximum number of operations of one call.
    pub most_operations: u64,
    /// The maximum memory of one call, in bytes.
    pub most_memory: u64,
    /// The number of timed calls.
    pub measured: u64,
    /// The total running time of the timed calls, in nanoseconds.
    pub nanoseconds: u64,
    /// The maximum running time of a timed call, in nanoseconds.
    pub longest: u64,
}

type Field = fn(&mut Sum) -> &mut u64;
type Join = fn(u64, u64) -> u64;

/// The JSON names of the fields of a sum, and the functions that combine two values.
const FIELDS: [(&str, Field, Join); 8] = [
    ("calls", |sum| &mut sum.calls, u64::saturating_add),
    ("broken", |sum| &mut sum.broken, u64::saturating_add),
    ("operations", |sum| &mut sum.operations, u64::saturating_add),
    ("most_operations", |sum| &mut sum.most_operations, u64::max),
    ("most_memory", |sum| &mut sum.most_memory, u64::max),
    ("measured", |sum| &mut sum.measured, u64::saturating_add),
    ("nanoseconds", |sum| &mut sum.nanoseconds, u64::saturating_add),
    ("longest", |sum| &mut sum.longest, u64::max),
];

impl Sum {
    /// Returns the mean running time of the timed calls.
    pub fn mean_time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.checked_div(self.measured).unwrap_or(0))
    }

    /// Combines two sums, such as those of two hosts with the same plugin.
    #[must_use]
    pub fn and(mut self, mut other: Self) -> Self {
        for (_, field, join) in FIELDS {
            let own = field(&mut self);
            *own = join(*own, *field(&mut other));
        }
        self
    }

    /// Converts the sum to JSON.
    pub fn into_json(mut self) -> Json {
        FIELDS
            .iter()
            .map(|(name, field, _)| ((*name).into(), (*field(&mut self)).into()))
            .collect::<Object>()
            .into()
    }

    /// Reads a sum from JSON; missing fields are 0.
    pub fn from_json(json: &Json) -> Self {
        let mut sum = Self::default();
        for (name, field, _) in FIELDS {
            let value = json.get(name).and_then(|value| value.as_i64()).unwrap_or(0);
            *field(&mut sum) = u64::try_from(value).unwrap_or(0);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_metrics_add_up_by_name() {
        let metrics = PluginMetrics::default();
        let spent = |operations, memory| CallCost { operations, memory, ..CallCost::default() };
        for (operations, memory, ending) in [(5, 100, CallOutcome::Continued), (9, 40, CallOutcome::Failed)] {
            let call_metrics = metrics.of("inlet");
            let timing = call_metrics.begin();
            call_metrics.end(&timing, spent(operations, memory), ending);
        }
        metrics.of("never called");
        let [(name, sum)] = metrics.sums().try_into().unwrap();
        assert_eq!(name, "inlet");
        assert_eq!((sum.calls, sum.broken, sum.operations), (2, 1, 14));
        assert_eq!((sum.most_operations, sum.most_memory, sum.measured), (9, 100, 2));
        assert!(sum.mean_time() > Duration::ZERO);
    }

    #[test]
    fn each_call_outcome_has_a_name_and_only_failures_count_as_failed() {
        let call_metrics = CallMetrics::default();
        for ending in ENDINGS {
            call_metrics.end(&call_metrics.begin(), CallCost::default(), ending);
        }
        call_metrics.record_skipped();
        let outcomes = [
            ("continue", 1),
            ("skip", 1),
            ("refused", 1),
            ("ignored", 2),
            ("failed", 1),
            ("would_skip", 1),
            ("would_refuse", 1),
            ("would_fail", 1),
            ("breaker_open", 1),
        ];
        assert_eq!(call_metrics.outcomes(), outcomes);
        assert_eq!(
            (call_metrics.sum().calls, call_metrics.sum().broken, call_metrics.times().count),
            (9, 3, 9)
        );
    }

    #[test]
    fn waiting_does_not_count_as_run_time() {
        let call_metrics = CallMetrics::default();
        let timing = call_metrics.begin();
        let waited = Duration::from_secs(3_600);
        call_metrics.end(&timing, CallCost { waited, ..CallCost::default() }, CallOutcome::Continued);
        assert_eq!(call_metrics.sum().mean_time(), Duration::ZERO);
    }

    #[test]
    fn only_a_sample_of_many_calls_is_timed() {
        let call_metrics = CallMetrics::default();
        for _ in 0..1_000 {
            call_metrics.end(&call_metrics.begin(), CallCost::default(), CallOutcome::Continued);
        }
        let sum = call_metrics.sum();
        assert_eq!(sum.calls, 1_000);
        assert!((100..300).contains(&sum.measured), "{}", sum.measured);
    }

    #[test]
    fn a_slow_call_is_marked_slow_until_calls_are_fast_again() {
        let call_metrics = CallMetrics::default();
        let end = |operations| {
            call_metrics.end(
                &call_metrics.begin(),
                CallCost { operations, ..CallCost::default() },
                CallOutcome::Continued,
            );
            call_metrics.is_slow()
        };
        assert_eq!([end(100), end(50_000), end(100)], [false, true, false]);
    }

    #[test]
    fn call_metrics_are_serialized_and_added() {
        let call_metrics = CallMetrics::default();
        call_metrics.end(
            &call_metrics.begin(),
            CallCost { operations: 7, ..CallCost::default() },
            CallOutcome::Failed,
        );
        let sum = call_metrics.sum();
        assert_eq!(Sum::from_json(&sum.into_json()), sum);
        let both = sum.and(Sum { calls: 1, most_operations: 9, ..Sum::default() });
        assert_eq!((both.calls, both.operations, both.most_operations), (2, 7, 9));
    }
}
