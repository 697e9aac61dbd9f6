//! The costs of a plugin's calls: kept while the host runs, across reloads, cheap to add to.

use super::spread::{Spread, Spreading, counted};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_json::{Json, Object};

/// Calls whose time is always measured: reading the clock twice costs a tenth of a small hook.
const ALL_MEASURED: u64 = 64;
/// Of the later ones, one in so many.
const MEASURED: u64 = 8;
/// From here on a call is slow: in operations, and in nanoseconds where it is timed.
const SLOW: (u64, u64) = (10_000, 1_000_000);

/// The cost of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Operations of the interpreter.
    pub operations: u64,
    /// The most memory it held at a time, in bytes.
    pub memory: u64,
    /// The memory that it had allocated and not freed when it ended, in bytes.
    pub kept: u64,
    /// The time that it waited for others.
    pub waited: Duration,
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a value to go on with.
    Continued,
    /// With a value that stops its chain.
    Skipped,
    /// With a refusal.
    Refused,
    /// With a refusal that was forgiven.
    RefusalForgiven,
    /// With a bug, a budget, a wrong return.
    Broken,
    /// The same, forgiven.
    BreakageForgiven,
}

/// Every ending, in the order in which they are counted.
const ENDINGS: [Ending; 6] = [
    Ending::Continued,
    Ending::Skipped,
    Ending::Refused,
    Ending::RefusalForgiven,
    Ending::Broken,
    Ending::BreakageForgiven,
];

impl Ending {
    /// One word for figures.
    pub fn word(self) -> &'static str {
        match self {
            Self::Continued => "continue",
            Self::Skipped => "skip",
            Self::Refused => "refused",
            Self::RefusalForgiven | Self::BreakageForgiven => "forgiven",
            Self::Broken => "broke",
        }
    }

    fn is_breakage(self) -> bool {
        matches!(self, Self::Broken | Self::BreakageForgiven)
    }
}

/// The figures of one plugin: for each of its hooks or tools by name.
#[derive(Debug, Default)]
pub struct Figures(Mutex<BTreeMap<String, Arc<Tally>>>);

impl Figures {
    /// The counter that adds up the calls of one hook or tool.
    pub fn of(&self, name: &str) -> Arc<Tally> {
        let mut tallies = self.0.lock();
        match tallies.get(name) {
            Some(tally) => tally.clone(),
            None => tallies.entry(name.to_owned()).or_default().clone(),
        }
    }

    /// The sums of what was called at all, by name.
    pub fn sums(&self) -> Vec<(String, Sum)> {
        let tallies = self.0.lock();
        let sums = tallies.iter().map(|(name, tally)| (name.clone(), tally.sum()));
        sums.filter(|(_, sum)| sum.calls > 0).collect()
    }

    /// Everything that is added up, by name.
    pub fn tallies(&self) -> Vec<(String, Arc<Tally>)> {
        self.0.lock().iter().map(|(name, tally)| (name.clone(), tally.clone())).collect()
    }
}

/// Adds up calls, from any thread.
#[derive(Debug)]
pub struct Tally {
    /// Calls that ended, by their ending.
    ended: [AtomicU64; ENDINGS.len()],
    /// Calls that were not made, since the plugin rests.
    rested: AtomicU64,
    operations: AtomicU64,
    most_operations: AtomicU64,
    most_memory: AtomicU64,
    /// Own running time of the calls that were timed.
    times: Spread,
    longest: AtomicU64,
    slow: AtomicBool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            ended: Default::default(),
            rested: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            most_operations: AtomicU64::new(0),
            most_memory: AtomicU64::new(0),
            times: Spread::of_scripts(),
            longest: AtomicU64::new(0),
            slow: AtomicBool::new(false),
        }
    }
}

/// A call under way, timed if it is one of those.
#[derive(Debug)]
pub struct Timing(Option<Instant>);

impl Tally {
    /// A call begins.
    pub fn begin(&self) -> Timing {
        // Those that went on are nearly all, and one look is cheaper than a sum.
        let calls = self.ended[Ending::Continued as usize].load(Relaxed);
        let is_timed = calls < ALL_MEASURED || calls.is_multiple_of(MEASURED) || self.is_slow();
        Timing(is_timed.then(Instant::now))
    }

    /// It has ended.
    pub fn end(&self, timing: &Timing, spent: Spent, ending: Ending) {
        self.operations.fetch_add(spent.operations, Relaxed);
        raise(&self.most_operations, spent.operations);
        raise(&self.most_memory, spent.memory);
        self.ended[ending as usize].fetch_add(1, Relaxed);
        let mut slow = (spent.operations > SLOW.0).then_some(true);
        if let Timing(Some(began)) = timing {
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

    /// A call is not made, since the plugin rests.
    pub fn rests(&self) {
        self.rested.fetch_add(1, Relaxed);
    }

    /// The ends of calls, each way with a word of its own; `rests` for those that were not made.
    pub fn outcomes(&self) -> Vec<(&'static str, u64)> {
        let mut outcomes: Vec<(&'static str, u64)> = Vec::new();
        for (ending, count) in ENDINGS.iter().zip(counted(&self.ended)) {
            match outcomes.iter_mut().find(|(word, _)| *word == ending.word()) {
                Some((_, sum)) => *sum += count,
                None => outcomes.push((ending.word(), count)),
            }
        }
        outcomes.push(("rests", self.rested.load(Relaxed)));
        outcomes
    }

    /// The own running time of the calls that were timed.
    pub fn times(&self) -> Spreading {
        self.times.read()
    }

    /// Returns `true` if the last call that was timed took a millisecond or more: the next one better runs where it
    /// holds up nobody.
    pub fn is_slow(&self) -> bool {
        self.slow.load(Relaxed)
    }

    /// A call that was not timed took long all the same.
    pub fn was_slow(&self) {
        self.slow.store(true, Relaxed);
    }

    /// The sum so far.
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

/// It is almost never a new height: a look is cheaper than a write.
fn raise(height: &AtomicU64, value: u64) {
    if value > height.load(Relaxed) {
        height.fetch_max(value, Relaxed);
    }
}

/// The sum of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of calls that ended.
    pub calls: u64,
    /// The number of them that broke.
    pub broken: u64,
    /// Operations of all of them.
    pub operations: u64,
    /// The most of one.
    pub most_operations: u64,
    /// The most memory one held, in bytes.
    pub most_memory: u64,
    /// The number of them that were timed.
    pub measured: u64,
    /// Own running time of those.
    pub nanoseconds: u64,
    /// Of the longest of those.
    pub longest: u64,
}

type Field = fn(&mut Sum) -> &mut u64;
type Join = fn(u64, u64) -> u64;

/// The fields of a sum by their names on the wire, and how two of them come together.
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
    /// The mean of the calls that were timed.
    pub fn mean_time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.checked_div(self.measured).unwrap_or(0))
    }

    /// The part of it that operators see while it grows.
    pub fn in_short(&self) -> Json {
        Json::from([
            ("calls", self.calls.into()),
            ("broken", self.broken.into()),
            ("mean_us", (self.mean_time().as_nanos() as f64 / 1_000.0).into()),
        ])
    }

    /// The two together: of two hosts with the same plugin.
    #[must_use]
    pub fn and(mut self, mut other: Self) -> Self {
        for (_, field, join) in FIELDS {
            let own = field(&mut self);
            *own = join(*own, *field(&mut other));
        }
        self
    }

    /// As it is written down.
    pub fn into_json(mut self) -> Json {
        FIELDS
            .iter()
            .map(|(name, field, _)| ((*name).into(), (*field(&mut self)).into()))
            .collect::<Object>()
            .into()
    }

    /// As it was written down; what is missing is 0.
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
    fn calls_are_added_up_by_name() {
        let figures = Figures::default();
        let spent = |operations, memory| Spent { operations, memory, ..Spent::default() };
        for (operations, memory, ending) in [(5, 100, Ending::Continued), (9, 40, Ending::Broken)] {
            let tally = figures.of("inlet");
            let timing = tally.begin();
            tally.end(&timing, spent(operations, memory), ending);
        }
        figures.of("never called");
        let [(name, sum)] = figures.sums().try_into().unwrap();
        assert_eq!(name, "inlet");
        assert_eq!((sum.calls, sum.broken, sum.operations), (2, 1, 14));
        assert_eq!((sum.most_operations, sum.most_memory, sum.measured), (9, 100, 2));
        assert!(sum.mean_time() > Duration::ZERO);
    }

    #[test]
    fn each_way_to_end_has_its_word_and_only_breakages_are_broken() {
        let tally = Tally::default();
        for ending in ENDINGS {
            tally.end(&tally.begin(), Spent::default(), ending);
        }
        tally.rests();
        let outcomes =
            [("continue", 1), ("skip", 1), ("refused", 1), ("forgiven", 2), ("broke", 1), ("rests", 1)];
        assert_eq!(tally.outcomes(), outcomes);
        assert_eq!((tally.sum().calls, tally.sum().broken, tally.times().count), (6, 2, 6));
    }

    #[test]
    fn waiting_is_no_own_time() {
        let tally = Tally::default();
        let timing = tally.begin();
        let waited = Duration::from_secs(3_600);
        tally.end(&timing, Spent { waited, ..Spent::default() }, Ending::Continued);
        assert_eq!(tally.sum().mean_time(), Duration::ZERO);
    }

    #[test]
    fn of_many_calls_some_are_timed() {
        let tally = Tally::default();
        for _ in 0..1_000 {
            tally.end(&tally.begin(), Spent::default(), Ending::Continued);
        }
        let sum = tally.sum();
        assert_eq!(sum.calls, 1_000);
        assert!((100..300).contains(&sum.measured), "{}", sum.measured);
    }

    #[test]
    fn what_takes_long_is_known_as_slow_until_it_is_quick_again() {
        let tally = Tally::default();
        let end = |operations| {
            tally.end(&tally.begin(), Spent { operations, ..Spent::default() }, Ending::Continued);
            tally.is_slow()
        };
        assert_eq!([end(100), end(50_000), end(100)], [false, true, false]);
    }

    #[test]
    fn sums_are_written_down_and_added() {
        let tally = Tally::default();
        tally.end(&tally.begin(), Spent { operations: 7, ..Spent::default() }, Ending::Broken);
        let sum = tally.sum();
        assert_eq!(Sum::from_json(&sum.into_json()), sum);
        let both = sum.and(Sum { calls: 1, most_operations: 9, ..Sum::default() });
        assert_eq!((both.calls, both.operations, both.most_operations), (2, 7, 9));
    }
}
