//! The types of stored usage.

use std::ops::{Index, IndexMut};

/// The upper ends of the latency classes in milliseconds; the last class has none.
pub const LATENCIES_MS: [i64; 12] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000];

/// The number of units of a sum of costs that make one unit of the currency.
pub const COST_UNITS: f64 = 1e6;

/// The names of the counts, which are the columns of the table.
pub const COUNT_NAMES: [&str; 27] = [
    "requests",
    "client_errors",
    "server_errors",
    "refusals",
    "prompt_tokens",
    "completion_tokens",
    "cost",
    "took_ms",
    "first_ms",
    "first_count",
    "cached_tokens",
    "reasoning_tokens",
    "plugin_us",
    "model_ms",
    "le_10",
    "le_25",
    "le_50",
    "le_100",
    "le_250",
    "le_500",
    "le_1000",
    "le_2500",
    "le_5000",
    "le_10000",
    "le_30000",
    "le_60000",
    "le_more",
];

/// The place of the first latency class, which the others follow.
const FIRST_LATENCY: usize = COUNT_NAMES.len() - LATENCIES_MS.len() - 1;

/// The sums of a period: requests, errors, tokens, costs in millionths, times, and requests in each latency class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts(pub [i64; COUNT_NAMES.len()]);

impl Counts {
    /// Adds other sums.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0).filter(|(_, more)| *more != 0) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the cost in the currency of the prices of models.
    pub fn cost(&self) -> f64 {
        self[UsageCount::Cost] as f64 / COST_UNITS
    }

    /// Counts a request of this length in its latency class.
    pub fn add_latency(&mut self, ms: i64) {
        let class = LATENCIES_MS.iter().position(|end| ms <= *end).unwrap_or(LATENCIES_MS.len());
        self.0[FIRST_LATENCY + class] += 1;
    }

    /// Returns the numbers of requests in each latency class.
    pub fn latencies(&self) -> &[i64] {
        &self.0[FIRST_LATENCY..]
    }

    /// Returns the time in milliseconds within which this share of the requests ended, interpolated in its latency
    /// class; `None` without requests.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all: i64 = self.latencies().iter().sum();
        let mut left = (all > 0).then_some(all as f64 * share)?;
        let mut begin = 0.0;
        for (count, end) in self.latencies().iter().zip(LATENCIES_MS) {
            if *count > 0 && left <= *count as f64 {
                return Some(begin + (end as f64 - begin) * left / *count as f64);
            }
            left -= *count as f64;
            begin = end as f64;
        }
        Some(begin)
    }
}

/// A count of a period other than its latency classes, at its place in [`COUNT_NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum UsageCount {
    /// The number of requests.
    Requests,
    /// The number of answers with status 400 to 499.
    ClientErrors,
    /// The number of answers with status 500 and above.
    ServerErrors,
    /// The number of requests that a filter refused.
    Refusals,
    /// The number of prompt tokens.
    PromptTokens,
    /// The number of completion tokens.
    CompletionTokens,
    /// The cost in millionths of the currency.
    Cost,
    /// The sum of the times of all requests in milliseconds.
    TookMs,
    /// The sum of the times to the first part of an answer in milliseconds.
    FirstMs,
    /// The number of these times.
    FirstCount,
    /// The number of prompt tokens that services read from their cache.
    CachedTokens,
    /// The number of completion tokens that nobody sees, because the model reasons with them.
    ReasoningTokens,
    /// The sum of the times of hooks in microseconds.
    PluginUs,
    /// The sum of the times of model calls in milliseconds.
    ModelMs,
}

impl Index<UsageCount> for Counts {
    type Output = i64;

    fn index(&self, count: UsageCount) -> &i64 {
        &self.0[count as usize]
    }
}

impl IndexMut<UsageCount> for Counts {
    fn index_mut(&mut self, count: UsageCount) -> &mut i64 {
        &mut self.0[count as usize]
    }
}

/// A property of requests by which usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// The name of the key.
    Key,
    /// The id of the user.
    User,
    /// The requested model.
    Model,
    /// The provider that answered last.
    Provider,
    /// The endpoint.
    Endpoint,
    /// The filter that refused the request. Refusals have no other property.
    Plugin,
}

impl Dimension {
    /// Those of all requests, in the order of [`UsageRow::by`].
    pub const ALL: [Self; 5] = [Self::Key, Self::User, Self::Model, Self::Provider, Self::Endpoint];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::User => "user",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Endpoint => "endpoint",
            Self::Plugin => "plugin",
        }
    }

    /// Returns the column.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Key => "api_key",
            Self::User => "user_id",
            other => other.as_str(),
        }
    }
}

/// The sums of one period and one group of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageRow {
    /// The beginning of the period in seconds since 1970.
    pub at: i64,
    /// The properties of the group, in the order of the dimensions that were asked for.
    pub by: Vec<String>,
    /// The sums.
    pub counts: Counts,
}

/// A question about usage.
#[derive(Debug, Clone, Default)]
pub struct UsageQuery {
    /// The beginning in seconds since 1970.
    pub from: i64,
    /// The end, which is not included.
    pub to: i64,
    /// The length of a period in seconds; 0 for one period.
    pub step: i64,
    /// The properties by which the sums are grouped.
    pub by: Vec<Dimension>,
    /// The properties that the counted requests have, with their values.
    pub of: Vec<(Dimension, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_in_the_latency_classes() {
        let mut counts = Counts::default();
        assert_eq!(counts.quantile(0.5), None);
        (0..90).for_each(|_| counts.add_latency(80));
        (0..10).for_each(|_| counts.add_latency(2_000));
        assert_eq!((counts.quantile(0.45), counts.quantile(0.95)), (Some(75.0), Some(1750.0)));
        counts.add_latency(1_000_000);
        assert_eq!(counts.quantile(1.0), Some(60_000.0));
        counts[UsageCount::Cost] += 5;
        assert_eq!((counts[UsageCount::Cost], counts.latencies().iter().sum::<i64>()), (5, 101));
    }
}
