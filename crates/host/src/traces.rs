//! Requests as operators read them, with the sums beside the facts of a trace: who pays, which service answered, tokens
//! and cost. A host writes those that ended to the store, if the settings say so.

use crate::host::Host;
use crate::usage;
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;
use valvehouse_config::TraceSettings;
use valvehouse_core::described;
use valvehouse_core::trace::{Trace, TraceDetail, TraceSummary, Traces};
use valvehouse_json::Json;
use valvehouse_store::{COST_UNITS, StoreErrorKind, StoredTrace, TraceCursor, now};

/// The interval at which requests are written to the store.
const WRITE: Duration = Duration::from_secs(1);
/// The interval at which old requests are deleted.
const PRUNE: Duration = Duration::from_secs(60);
/// The number of requests in a transaction.
const BATCH: usize = 200;
/// The share of the maximum size after which requests are deleted earlier.
const SHARE: u64 = 16;

/// The requests in the store.
pub struct TraceStore {
    host: Arc<Host>,
    traces: Arc<Traces>,
    /// The time for which requests are stored; `None` if they are not.
    keep: Option<Duration>,
    /// The maximum size of all of them in bytes.
    max_size: u64,
    refused: AtomicU64,
    /// The size of what was written since old requests were deleted, in bytes.
    written: AtomicU64,
}

impl TraceStore {
    /// Creates the store of a host's requests. Nothing is stored before [`TraceStore::follow`].
    pub fn new(host: Arc<Host>, traces: Arc<Traces>, settings: &TraceSettings) -> Self {
        let max_size = settings.store_max_mb.saturating_mul(1 << 20);
        Self {
            host,
            traces,
            keep: settings.store,
            max_size,
            refused: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// Returns `true` if requests are stored.
    pub fn is_on(&self) -> bool {
        self.keep.is_some()
    }

    /// Returns the number of requests that were not stored, because too many waited or the store refused them.
    pub fn dropped(&self) -> u64 {
        self.refused.load(Relaxed) + self.traces.queue().map_or(0, |queue| queue.dropped())
    }

    /// Writes the requests that wait. What cannot be written now waits for the next time.
    pub async fn write(&self) {
        let Some(queue) = self.traces.queue() else { return };
        loop {
            let batch = queue.take(BATCH);
            if batch.is_empty() {
                return;
            }
            let mut rows = Vec::with_capacity(batch.len());
            for trace in batch.iter() {
                let (steps, row) = (Json::from(trace.stored_parts()), row(&self.host, trace));
                let has_values = |step: &Json| step.field("contents").as_bool() == Some(true);
                row.facts.put("contents", steps.list("steps").iter().any(has_values));
                rows.push(StoredTrace { steps, ..row });
                tokio::task::yield_now().await;
            }
            match self.host.store().add_traces(&rows).await {
                Ok(added) => _ = self.written.fetch_add(added, Relaxed),
                // Trying again does not help.
                Err(error) if matches!(error.kind, StoreErrorKind::Refused | StoreErrorKind::Other) => {
                    self.refused.fetch_add(rows.len() as u64, Relaxed);
                    tracing::warn!("cannot store {} requests: {error}", rows.len());
                }
                Err(error) => {
                    tracing::debug!("cannot store requests, retrying: {error}");
                    return;
                }
            }
            batch.end();
        }
    }

    /// Writes requests and deletes old ones periodically until the future is dropped.
    pub async fn follow(self: Arc<Self>) {
        let Some(keep) = self.keep else { return };
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        self.traces.fill_queue();
        let mut pruned = None::<Instant>;
        loop {
            let is_due = pruned.is_none_or(|at| at.elapsed() >= PRUNE);
            if is_due || self.written.load(Relaxed) >= self.max_size / SHARE {
                pruned = Some(Instant::now());
                self.written.store(0, Relaxed);
                let before = (now() * 1_000).saturating_sub(keep);
                if let Err(error) = self.host.store().prune_traces(before, self.max_size).await {
                    tracing::debug!("cannot delete old requests: {error}");
                }
            }
            tokio::time::sleep(WRITE).await;
            self.write().await;
        }
    }
}

/// Returns a request as it is stored, without its steps.
pub fn row(host: &Host, trace: &Trace) -> StoredTrace {
    let facts = summary(host, trace);
    let begun = Timestamp::try_from(trace.begun).unwrap_or(Timestamp::UNIX_EPOCH);
    StoredTrace {
        at: TraceCursor { us: begun.as_microsecond(), id: trace.id.clone() },
        key: trace.key().unwrap_or("").to_owned(),
        user: trace.request.user.clone(),
        model: trace.request.model.clone(),
        status: trace.ended().map_or(0, |ended| ended.status.into()),
        outcome: trace.outcome().unwrap_or("").to_owned(),
        took_ms: facts.field("took_ms").as_f64().unwrap_or(0.0) as u64,
        plugins: trace.plugins().into_iter().collect(),
        facts,
        steps: Json::Null,
    }
}

described! {
    /// A request in a list.
    pub struct ListedTrace as "TraceSummary";
    /// Returns a request in a list with its sums.
    pub fn summary(host: &Host, trace: &Trace) {
        ..summary: TraceSummary = trace.summary(),
        ..sums: TraceSums = sums(host, trace),
    }
}

described! {
    /// A request with its steps, lines and events.
    pub struct WholeTrace as "Trace";
    /// Returns a request with its steps and its sums.
    pub fn detail(host: &Host, trace: &Trace) {
        ..detail: TraceDetail = trace.detail(),
        ..sums: TraceSums = sums(host, trace),
    }
}

/// Returns a stored request as [`detail`] does.
pub fn stored_detail([facts, steps]: [Json; 2]) -> Json {
    for name in ["steps", "lines", "events"] {
        // A parsed object accepts any key.
        facts.put(name, steps.field(name));
    }
    facts
}

described! {
    /// The sums of a request, beside the fields of its trace.
    pub struct TraceSums;
    fn sums(host: &Host, trace: &Trace) with {
        let totals = trace.totals();
        let has_prices = trace.cost() > 0 || usage::has_prices(&host.snapshot(), &trace.request.model);
        let cost = has_prices.then(|| trace.cost() as f64 / COST_UNITS);
    } {
        /// The id of the host.
        host: String = host.id(),
        /// The name of the key that pays for the request; null if it is not one that operators handed out.
        key: Option<String> = trace.key(),
        /// The provider of the last model call.
        provider: Option<String> = totals.provider(),
        /// The prompt tokens of all model calls so far.
        prompt_tokens: u64 = totals.tokens[0],
        /// The completion tokens of all model calls so far.
        completion_tokens: u64 = totals.tokens[1],
        /// The time to the first part of a streamed answer of the model, in milliseconds.
        first_ms: Option<f64> = totals.first.map(|first| first.as_micros() as f64 / 1_000.0),
        /// The cost of the tokens so far in the currency of the prices; null if the model has no prices.
        cost: Option<f64> = cost,
        /// The plugin that rejected or failed the request.
        ended_by: Option<String> = totals.ended_by.as_ref().map(|(plugin, _)| &**plugin),
    }
}
