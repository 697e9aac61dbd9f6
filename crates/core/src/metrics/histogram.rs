//! Histograms of durations with fixed buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of bucket bounds of a histogram.
pub const BUCKETS: usize = 14;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

/// The bounds for running times of scripts: 1 µs to 1 s.
const SCRIPTS: [u64; BUCKETS] = [
    MICROSECOND,
    4 * MICROSECOND,
    10 * MICROSECOND,
    25 * MICROSECOND,
    50 * MICROSECOND,
    100 * MICROSECOND,
    250 * MICROSECOND,
    500 * MICROSECOND,
    MILLISECOND,
    2_500 * MICROSECOND,
    10 * MILLISECOND,
    50 * MILLISECOND,
    250 * MILLISECOND,
    1_000 * MILLISECOND,
];

/// The bounds for model responses, as in the OpenTelemetry conventions: doubled from 10 ms to 82 s.
const MODELS: [u64; BUCKETS] = {
    let mut bounds = [10 * MILLISECOND; BUCKETS];
    let mut place = 1;
    while place < BUCKETS {
        bounds[place] = 2 * bounds[place - 1];
        place += 1;
    }
    bounds
};

/// The bounds for all other durations: 1 ms to 5 minutes.
const WORK: [u64; BUCKETS] = [
    MILLISECOND,
    2_500 * MICROSECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    25 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    250 * MILLISECOND,
    1_000 * MILLISECOND,
    2_500 * MILLISECOND,
    10_000 * MILLISECOND,
    30_000 * MILLISECOND,
    60_000 * MILLISECOND,
    300_000 * MILLISECOND,
];

/// A histogram of durations. Adding one costs two atomic additions and a search among the bounds.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64; BUCKETS],
    /// The counts by bucket; the last bucket has no upper bound.
    counts: [AtomicU64; BUCKETS + 1],
    nanoseconds: AtomicU64,
}

/// A snapshot of a [`Histogram`].
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// The upper bounds in seconds.
    pub bounds: [f64; BUCKETS],
    /// The number of durations up to each bound.
    pub counts: [u64; BUCKETS],
    /// The number of durations.
    pub count: u64,
    /// The sum of all durations, in seconds.
    pub seconds: f64,
}

impl Histogram {
    /// Creates a histogram for running times of scripts.
    pub fn of_scripts() -> Self {
        Self::within(&SCRIPTS)
    }

    /// Creates a histogram for model responses.
    pub fn of_models() -> Self {
        Self::within(&MODELS)
    }

    /// Creates a histogram for other durations.
    pub fn of_work() -> Self {
        Self::within(&WORK)
    }

    fn within(bounds: &'static [u64; BUCKETS]) -> Self {
        Self { bounds, counts: Default::default(), nanoseconds: AtomicU64::new(0) }
    }

    /// Adds a duration.
    pub fn add(&self, time: Duration) {
        self.add_nanoseconds(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn add_nanoseconds(&self, time: u64) {
        let place = self.bounds.partition_point(|bound| *bound < time);
        self.counts[place].fetch_add(1, Relaxed);
        self.nanoseconds.fetch_add(time, Relaxed);
    }

    /// Returns the number of durations and their sum in nanoseconds.
    pub(super) fn sums(&self) -> (u64, u64) {
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        (counts.sum(), self.nanoseconds.load(Relaxed))
    }

    /// Returns a snapshot.
    pub fn read(&self) -> HistogramSnapshot {
        let counts = counted(&self.counts);
        let mut sum = 0;
        let up_to: [u64; BUCKETS] = std::array::from_fn(|place| {
            sum += counts[place];
            sum
        });
        HistogramSnapshot {
            bounds: self.bounds.map(|bound| bound as f64 / 1e9),
            counts: up_to,
            count: sum + counts[BUCKETS],
            seconds: self.nanoseconds.load(Relaxed) as f64 / 1e9,
        }
    }
}

/// Reads an array of counters.
pub(super) fn counted<const N: usize>(counts: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|place| counts[place].load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_above_it() {
        let spread = Histogram::of_scripts();
        for nanoseconds in [1, 1_000, 1_001, 2_000_000_000] {
            spread.add(Duration::from_nanos(nanoseconds));
        }
        let read = spread.read();
        assert_eq!((read.counts[0], read.counts[1], read.counts[BUCKETS - 1], read.count), (2, 3, 3, 4));
        assert!((read.seconds - 2.000_002_002).abs() < 1e-9, "{}", read.seconds);
    }

    #[test]
    fn histogram_bounds_are_ascending() {
        for bounds in [SCRIPTS, MODELS, WORK] {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        }
        assert_eq!(Histogram::of_models().read().bounds[13], 81.92);
    }
}
