//! The usage of clients: sums of each minute by key, user, model, provider and endpoint, which all hosts of a store add to it.

use crate::host::Host;
use crate::snapshot::Snapshot;
use indexmap::IndexMap;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;
use valvehouse_core::text::did_you_mean;
use valvehouse_core::trace::{CalledModel, Pricing, Trace};
use valvehouse_json::Json;
use valvehouse_store::{
    Counts, Dimension, Store, StoreError, UsageCount, UsageQuery, UsageRow, now, stored_name,
};

/// The interval at which sums are written to the store.
const WRITE: Duration = Duration::from_secs(5);
/// The interval at which old sums are added to those of longer periods.
const COMPACT: Duration = Duration::from_secs(60 * 60);
/// The maximum number of sums in memory. Requests of further keys, users and models count for `…`.
const MAX: usize = 10_000;
/// The length of the time of a question without a beginning, in seconds.
const USUAL: i64 = 24 * 60 * 60;
/// The maximum number of periods of an answer.
const MAX_PERIODS: i64 = 10_000;
/// The endpoints of work that scripts leave for after an answer.
const AFTER_ANSWERS: [&str; 2] = ["after", "done"];
/// The name of the sum of all that exceed [`MAX`].
const OTHERS: &str = "…";

/// The sums that are not written yet.
#[derive(Default)]
pub struct Usage {
    rows: Mutex<BTreeMap<u64, UsageRow>>,
    hasher: RandomState,
    /// Held while sums are written.
    writing: tokio::sync::Mutex<()>,
    /// The sums of each configured model since the start.
    models: Mutex<BTreeMap<String, Counts>>,
}

impl Usage {
    /// Returns the sums of each configured model since the start of this host.
    pub fn of_models(&self) -> BTreeMap<String, Counts> {
        self.models.lock().clone()
    }

    /// Counts a request of a key at its end, with `is_configured` for a configured model.
    pub fn count(&self, trace: &Trace, key: &str, is_configured: bool) {
        let Some(ended) = trace.ended() else { return };
        let [prompt, completion] = trace.tokens().map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        let mut counts = Counts::default();
        let totals = trace.totals();
        (counts[UsageCount::PromptTokens], counts[UsageCount::CompletionTokens]) = (prompt, completion);
        counts[UsageCount::Cost] = i64::try_from(trace.cost()).unwrap_or(i64::MAX);
        let kinds = trace.token_kinds().map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        [counts[UsageCount::CachedTokens], counts[UsageCount::ReasoningTokens]] = kinds;
        let request = &trace.request;
        // The work of scripts after an answer adds its tokens to the request that left it.
        if AFTER_ANSWERS.contains(&request.endpoint) {
            if [prompt, completion] == [0, 0] {
                return;
            }
        } else {
            add_request(&mut counts, ended.status, ended.took);
            counts[UsageCount::Refusals] =
                i64::from(totals.ended_by.as_ref().is_some_and(|(_, word)| *word == "refused"));
            counts[UsageCount::PluginUs] = i64::try_from(totals.plugins.as_micros()).unwrap_or(i64::MAX);
            counts[UsageCount::ModelMs] = ms(totals.models);
            if let Some(first) = totals.first {
                (counts[UsageCount::FirstMs], counts[UsageCount::FirstCount]) = (ms(first), 1);
            }
        }
        let provider = totals.provider().unwrap_or("");
        let by = [key, &request.user, &request.model, provider, request.endpoint];
        self.add_now(by, &counts, is_configured);
        if let (1, Some((plugin, _))) = (counts[UsageCount::Refusals], &totals.ended_by) {
            self.add(this_minute(), &[&stored_name(plugin)], &counts);
        }
    }

    /// Counts a request of a key that was refused before its turn. The model is a configured one, or empty.
    pub fn count_refusal(&self, [key, model, endpoint]: [&str; 3], status: u16, took: Duration) {
        let mut counts = Counts::default();
        add_request(&mut counts, status, took);
        self.add_now([key, "", model, "", endpoint], &counts, !model.is_empty());
    }

    fn add_now(&self, by: [&str; 5], counts: &Counts, is_configured: bool) {
        if is_configured {
            let mut models = self.models.lock();
            match models.get_mut(by[2]) {
                Some(sums) => sums.add(counts),
                None => drop(models.insert(by[2].to_owned(), *counts)),
            }
        }
        let by = by.map(stored_name);
        self.add(this_minute(), &by.each_ref().map(|name| &**name), counts);
    }

    /// Adds sums of requests, by all dimensions, or of refusals, by the plugin alone.
    fn add(&self, at: i64, by: &[&str], counts: &Counts) {
        let mut rows = self.rows.lock();
        let is_full = rows.len() >= MAX;
        match rows.entry(self.hasher.hash_one((at, by))) {
            Entry::Occupied(mut row) => row.get_mut().counts.add(counts),
            Entry::Vacant(place) if !is_full => {
                let by = by.iter().copied().map(str::to_owned).collect();
                place.insert(UsageRow { at, by, counts: *counts });
            }
            Entry::Vacant(_) => {
                // Clients name their users and models, while the provider and the endpoint are of the host.
                let names = by.iter().enumerate();
                let by: Vec<&str> = names.map(|(at, own)| if at < 3 { OTHERS } else { own }).collect();
                let new = || UsageRow {
                    at,
                    by: by.iter().copied().map(str::to_owned).collect(),
                    counts: Counts::default(),
                };
                rows.entry(self.hasher.hash_one((at, &*by))).or_insert_with(new).counts.add(counts);
            }
        }
    }

    /// Writes the sums to the store, to the end even if the caller is gone: sums that are being written are neither lost
    /// nor written twice. What cannot be written is kept for the next time.
    pub async fn write(self: &Arc<Self>, store: &Arc<Store>) {
        let (usage, store) = (self.clone(), store.clone());
        let written = tokio::spawn(async move {
            // The last write of a host waits for one whose caller is gone.
            let _one = usage.writing.lock().await;
            usage.write_rows(&store).await;
        });
        if let Err(error) = written.await {
            tracing::error!("cannot write the usage: {error}");
        }
    }

    async fn write_rows(&self, store: &Store) {
        let rows: Vec<UsageRow> = std::mem::take(&mut *self.rows.lock()).into_values().collect();
        if rows.is_empty() {
            return;
        }
        if let Err(error) = store.add_usage(&rows).await {
            tracing::debug!("cannot write the usage, retrying: {error}");
            for row in rows {
                let by: Vec<&str> = row.by.iter().map(String::as_str).collect();
                self.add(row.at, &by, &row.counts);
            }
        }
    }

    /// Writes the sums periodically until the future is dropped.
    pub async fn follow(self: Arc<Self>, store: Arc<Store>) {
        let mut compacted = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(WRITE).await;
            self.write(&store).await;
            if compacted.elapsed() >= COMPACT {
                compacted = tokio::time::Instant::now();
                if let Err(error) = store.compact_usage().await {
                    tracing::debug!("cannot compact the usage: {error}");
                }
            }
        }
    }
}

/// Returns the beginning of this minute in seconds since 1970.
fn this_minute() -> i64 {
    now() / 60_000 * 60
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Adds a request that ended with this status after this time.
fn add_request(counts: &mut Counts, status: u16, took: Duration) {
    counts[UsageCount::Requests] = 1;
    counts[UsageCount::ClientErrors] = i64::from((400..500).contains(&status));
    counts[UsageCount::ServerErrors] = i64::from(status >= 500);
    counts[UsageCount::TookMs] = ms(took);
    counts.add_latency(ms(took));
}

/// The sums of one period and one group of requests, as operators read them.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct UsageEntry {
    /// The beginning of the period.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// The group: the dimensions that were asked for, with their values. Empty texts stand for requests without one.
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub by: IndexMap<&'static str, String>,
    /// The number of requests.
    pub requests: i64,
    /// The number of answers with status 400 to 499.
    pub client_errors: i64,
    /// The number of answers with status 500 and above.
    pub server_errors: i64,
    /// The number of requests that a filter refused.
    pub refusals: i64,
    /// The number of prompt tokens.
    pub prompt_tokens: i64,
    /// The number of completion tokens.
    pub completion_tokens: i64,
    /// Those of the prompt tokens that services read from their cache.
    pub cached_tokens: i64,
    /// Those of the completion tokens with which models reasoned.
    pub reasoning_tokens: i64,
    /// The cost in the currency of the prices of models.
    pub cost: f64,
    /// The mean time of a request in milliseconds.
    pub mean_ms: Option<f64>,
    /// The time in milliseconds within which half of the requests ended, interpolated.
    pub p50_ms: Option<f64>,
    /// The same for 95 of a hundred.
    pub p95_ms: Option<f64>,
    /// The same for 99 of a hundred.
    pub p99_ms: Option<f64>,
    /// The mean time to the first part of a streamed answer in milliseconds.
    pub first_ms: Option<f64>,
    /// The mean time of all hooks of a request in milliseconds, including waiting.
    pub plugin_ms: Option<f64>,
    /// The mean time of all model calls of a request in milliseconds.
    pub model_ms: Option<f64>,
}

impl UsageEntry {
    /// Converts a stored row.
    pub fn of(row: &UsageRow, by: &[Dimension]) -> Self {
        let counts = &row.counts;
        let mean = |sum: UsageCount, count: UsageCount| {
            (counts[count] > 0).then(|| counts[sum] as f64 / counts[count] as f64)
        };
        Self {
            at: Timestamp::from_second(row.at).unwrap_or(Timestamp::UNIX_EPOCH),
            by: by.iter().map(|dimension| dimension.as_str()).zip(row.by.iter().cloned()).collect(),
            requests: counts[UsageCount::Requests],
            client_errors: counts[UsageCount::ClientErrors],
            server_errors: counts[UsageCount::ServerErrors],
            refusals: counts[UsageCount::Refusals],
            prompt_tokens: counts[UsageCount::PromptTokens],
            completion_tokens: counts[UsageCount::CompletionTokens],
            cached_tokens: counts[UsageCount::CachedTokens],
            reasoning_tokens: counts[UsageCount::ReasoningTokens],
            cost: counts.cost(),
            mean_ms: mean(UsageCount::TookMs, UsageCount::Requests),
            p50_ms: counts.quantile(0.5),
            p95_ms: counts.quantile(0.95),
            p99_ms: counts.quantile(0.99),
            first_ms: mean(UsageCount::FirstMs, UsageCount::FirstCount),
            plugin_ms: mean(UsageCount::PluginUs, UsageCount::Requests).map(|us| us / 1000.0),
            model_ms: mean(UsageCount::ModelMs, UsageCount::Requests),
        }
    }

    /// Converts it to JSON.
    pub fn to_json(&self) -> Json {
        let text = serde_json::to_vec(self).expect("usage has only texts and numbers");
        Json::parse(&text).expect("serde writes JSON")
    }
}

/// An invalid part of a question about usage, with the accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidUsageQuery {
    /// The part: `from`, `to`, `step` or `by`.
    pub part: &'static str,
    message: String,
}

/// Reads a question about usage from its texts: times as a moment in RFC 3339, a day in UTC, or a length before now; by
/// default the last 24 hours in one period.
///
/// # Errors
/// Returns the invalid part with the accepted form.
pub fn question([from, to, by, step]: [Option<&str>; 4]) -> Result<UsageQuery, InvalidUsageQuery> {
    let invalid = |part| move |message: String| InvalidUsageQuery { part, message };
    // The running minute is included.
    let to = time("to", to)?.unwrap_or(now() / 1000 + 60);
    let from = time("from", from)?.unwrap_or(to - USUAL);
    let step = step.map(parse_length).transpose().map_err(invalid("step"))?.unwrap_or(0);
    if from >= to {
        return Err(invalid("from")("invalid time: the beginning must be before the end".to_owned()));
    }
    if step != 0 && (step < 60 || (to - from) / step > MAX_PERIODS) {
        let message = format!("invalid step: expected at least 1m, and at most {MAX_PERIODS} periods");
        return Err(invalid("step")(message));
    }
    let by = parse_dimensions(by.unwrap_or("")).map_err(invalid("by"))?;
    Ok(UsageQuery { from, to, step, by, of: Vec::new() })
}

/// Reads the time of a part of a question, in seconds since 1970.
///
/// # Errors
/// Returns the part with the accepted forms.
pub fn time(part: &'static str, text: Option<&str>) -> Result<Option<i64>, InvalidUsageQuery> {
    text.map(parse_time).transpose().map_err(|message| InvalidUsageQuery { part, message })
}

/// Parses a time: a moment in RFC 3339, a day in UTC, or a length before now, such as `7d` or `90m`.
fn parse_time(text: &str) -> Result<i64, String> {
    let day = || Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let moment = text.parse::<Timestamp>().ok().or_else(day).map(Timestamp::as_second);
    let before = || Some(Timestamp::now().as_second() - parse_length(text).ok()?);
    moment.or_else(before).ok_or_else(|| {
        format!("invalid time {text:?}: expected a length such as 7d, a day such as 2027-01-31, or a moment such as 2027-01-31T12:00:00Z")
    })
}

/// Parses a length in seconds: `90m`, `24h`, `7d`.
fn parse_length(text: &str) -> Result<i64, String> {
    valvehouse_config::seconds(text)
        .ok_or_else(|| format!("invalid length {text:?}: expected a number and s, m, h or d, such as 7d"))
}

/// Parses the names of dimensions, separated by commas.
fn parse_dimensions(text: &str) -> Result<Vec<Dimension>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let all = || Dimension::ALL.into_iter().chain([Dimension::Plugin]);
    let find = |name: &str| {
        all().find(|dimension| dimension.as_str() == name).ok_or_else(|| {
            let known: Vec<&str> = all().map(Dimension::as_str).collect();
            let near = did_you_mean(name, known.iter().copied());
            format!("unknown dimension `{name}`{near}; known are {}", known.join(", "))
        })
    };
    let found: Vec<Dimension> = names.map(find).collect::<Result<_, _>>()?;
    match found.len() > 1 && found.contains(&Dimension::Plugin) {
        true => {
            Err("`plugin` stands alone: refusals are counted by the filter, without other properties".into())
        }
        false => Ok(found),
    }
}

/// Returns the stored usage that was asked for.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn entries(store: &Store, asked: &UsageQuery) -> Result<Vec<UsageEntry>, StoreError> {
    let rows = store.usage(asked).await?;
    Ok(rows.iter().map(|row| UsageEntry::of(row, &asked.by)).collect())
}

/// Returns `true` for a configured model with prices.
pub(crate) fn has_prices(snapshot: &Snapshot, model: &str) -> bool {
    let model = snapshot.plan().model(model);
    model.is_some_and(|model| !model.facts.field("price").is_empty())
}

/// The prices of the configured models of a host.
#[derive(Debug)]
pub(crate) struct Prices(pub(crate) Weak<Host>);

impl Pricing for Prices {
    fn cost(&self, requested: &str, called: CalledModel<'_>, tokens: [u64; 2], cached: u64) -> u64 {
        let Some(host) = self.0.upgrade() else { return 0 };
        let snapshot = host.snapshot();
        let priced = snapshot.plan().priced(requested, called);
        priced.map_or(0, |model| cost(tokens, cached, &model.facts.field("price")))
    }
}

/// Returns the cost of prompt and completion tokens in millionths, rounded up; so many of the former are from a cache. The
/// prices are those of a million tokens by their kind.
fn cost([prompt, completion]: [u64; 2], cached: u64, prices: &Json) -> u64 {
    let price = |kind: &str| prices.get(kind).and_then(|price| price.as_f64());
    let (input, cached) = (price("input").unwrap_or(0.0), cached.min(prompt));
    let read = (prompt - cached) as f64 * input + cached as f64 * price("cached").unwrap_or(input);
    // A price of a million tokens is the number of millionths of one token.
    (read + completion as f64 * price("output").unwrap_or(0.0)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn usage_that_the_store_does_not_take_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        let (usage, store) = (Usage::default(), Store::sqlite(&file).await.unwrap());
        let mut one = Counts::default();
        one[UsageCount::Requests] = 1;
        usage.add(120, &["ci", "ann", "m", "p", "chat"], &one);
        store.close().await;
        usage.write_rows(&store).await;
        let store = Store::sqlite(&file).await.unwrap();
        usage.write_rows(&store).await;
        let rows = store.usage(&UsageQuery { to: 1_000, step: 60, ..UsageQuery::default() }).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.counts[UsageCount::Requests]).sum::<i64>(), 1);
    }

    #[tokio::test]
    async fn a_write_whose_caller_is_gone_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Arc::new(Usage::default());
        let store = Arc::new(Store::sqlite(&folder.path().join("state.db")).await.unwrap());
        let mut one = Counts::default();
        one[UsageCount::Requests] = 1;
        usage.add(120, &["ci", "ann", "m", "p", "chat"], &one);
        let before = usage.writing.lock().await;
        let gone = futures::poll!(Box::pin(usage.write(&store)));
        assert!(gone.is_pending());
        usage.add(120, &["ci", "ann", "m", "p", "chat"], &one);
        drop(before);
        usage.write(&store).await;
        let rows = store.usage(&UsageQuery { to: 1_000, step: 60, ..UsageQuery::default() }).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.counts[UsageCount::Requests]).sum::<i64>(), 2);
    }

    #[tokio::test]
    async fn hosts_add_to_the_same_sums_and_a_full_table_keeps_the_total() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
        let one = Counts({
            let mut counts = Counts::default();
            counts[UsageCount::Requests] = 1;
            counts.0
        });
        let (here, there) = (Usage::default(), Usage::default());
        for usage in [&here, &there] {
            (0..MAX + 50).for_each(|user| usage.add(120, &["ci", &user.to_string(), "m", "p", "chat"], &one));
            assert!(usage.rows.lock().len() <= MAX + 1);
            usage.write_rows(&store).await;
            usage.write_rows(&store).await;
        }
        let asked = |by| UsageQuery { to: 1_000, step: 60, by, ..UsageQuery::default() };
        let all = store.usage(&asked(Vec::new())).await.unwrap();
        assert_eq!(
            (all.len(), all[0].at, all[0].counts[UsageCount::Requests]),
            (1, 120, 2 * (MAX as i64 + 50))
        );
        let by_key = store.usage(&asked(vec![Dimension::Key])).await.unwrap();
        let keys: Vec<(&str, i64)> =
            by_key.iter().map(|row| (&*row.by[0], row.counts[UsageCount::Requests])).collect();
        assert_eq!(keys, [("ci", 2 * MAX as i64), (OTHERS, 100)]);
        // All of it is old, and becomes one day of each group.
        store.compact_usage().await.unwrap();
        assert!(store.usage(&asked(Vec::new())).await.unwrap().is_empty(), "older than three years");
    }

    #[test]
    fn times_lengths_and_dimensions_are_read_or_refused_with_their_form() {
        assert_eq!(parse_length("90m"), Ok(5_400));
        assert_eq!(parse_time("1970-01-02"), Ok(86_400));
        assert_eq!(parse_time("1970-01-01T00:01:00Z"), Ok(60));
        assert!((parse_time("1h").unwrap() - now() / 1000 + 3_600).abs() < 60);
        for wrong in ["", "7", "d", "7w", "-7d", "7.5d", "ä"] {
            assert!(parse_length(wrong).is_err() && parse_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_dimensions("key, model"), Ok(vec![Dimension::Key, Dimension::Model]));
        assert!(parse_dimensions("keys").is_err_and(|why| why.to_string().contains("did you mean `key`?")));
    }

    #[test]
    fn a_cost_is_the_price_of_both_kinds_of_tokens_rounded_up() {
        let prices = Json::from([("input", 0.5.into()), ("output", 1.5.into())]);
        assert_eq!((cost([3, 2], 1, &prices), cost([3, 2], 0, &Json::Null)), (5, 0));
        let prices = Json::from([("input", 2.0.into()), ("cached", 0.5.into())]);
        assert_eq!((cost([10, 2], 8, &prices), cost([10, 2], 99, &prices)), (8, 5));
    }
}
