//! Counts of the filters that ran in the requests of the last hour, by endpoint, model and user.

use super::record::is_same;
use super::trace::Trace;
use parking_lot::Mutex;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use valvehouse_json::Json;

/// The length of a counting period, in seconds.
const PERIOD: u64 = 300;
/// The number of periods: one hour, including the current period.
const PERIODS: u64 = 12;
/// The maximum number of combinations of endpoint, model and user; further ones are counted as [`OTHERS`].
const MAX_ROWS: usize = 1_000;
/// The model and user under which further combinations are counted.
const OTHERS: &str = "(others)";

/// The requests of an hour by endpoint, model and user, and the filters that ran in them.
pub struct GuardCoverage {
    started: Instant,
    hasher: RandomState,
    rows: Mutex<HashMap<u64, Row>>,
    /// Set if there is a guard; without one, nothing is counted.
    is_counting: AtomicBool,
}

/// The requests of one endpoint, model and user within the last hour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardCoverageRow {
    /// The endpoint, as in traces.
    pub endpoint: String,
    /// The model.
    pub model: String,
    /// The id of the user; "" if unknown.
    pub user: String,
    /// The number of requests.
    pub requests: u64,
    /// The number of requests answered completely.
    pub answered: u64,
    /// The number of answered requests whose answer was streamed.
    pub streamed: u64,
    /// The number of answered requests in which a tool was called.
    pub called: u64,
    /// Hook, plugin, and the number of answered requests in which the plugin ran in the hook.
    pub runs: Vec<(String, String, u64)>,
}

struct Row {
    endpoint: &'static str,
    model: String,
    user: String,
    /// The periods, the oldest first.
    periods: VecDeque<Period>,
}

#[derive(Default)]
struct Period {
    number: u64,
    requests: u64,
    answered: u64,
    streamed: u64,
    called: u64,
    runs: Vec<Run>,
}

struct Run {
    hook: &'static str,
    plugin: Arc<str>,
    count: u64,
    /// The number of the last counted request, because several model calls of one request count once.
    last: u64,
}

impl Default for GuardCoverage {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            hasher: RandomState::new(),
            rows: Mutex::default(),
            is_counting: AtomicBool::new(false),
        }
    }
}

impl GuardCoverage {
    /// Starts or stops counting; without guards, there is nothing to cover.
    pub fn count(&self, is_counting: bool) {
        self.is_counting.store(is_counting, Relaxed);
    }

    /// Counts a finished request.
    pub(super) fn add(&self, trace: &Trace) {
        if !self.is_counting.load(Relaxed) {
            return;
        }
        let request = &trace.request;
        let Some(ended) = trace.ended() else { return };
        if !request.is_of_client() {
            return;
        }
        let is_answered = ended.whole && ended.error.is_none() && (200..400).contains(&ended.status);
        let now = self.started.elapsed().as_secs() / PERIOD;
        let key = |model: &str, user: &str| self.hasher.hash_one((request.endpoint, model, user));
        let mut rows = self.rows.lock();
        let (mut model, mut user) = (request.model.as_str(), request.user.as_str());
        let mut place = key(model, user);
        if rows.len() >= MAX_ROWS && !rows.contains_key(&place) {
            rows.retain(|_, row| row.periods.back().is_some_and(|period| period.number + PERIODS > now));
            if rows.len() >= MAX_ROWS {
                (model, user) = (OTHERS, OTHERS);
                place = key(model, user);
            }
        }
        let row = rows.entry(place).or_insert_with(|| Row {
            endpoint: request.endpoint,
            model: model.to_owned(),
            user: user.to_owned(),
            periods: VecDeque::new(),
        });
        if row.periods.back().is_none_or(|period| period.number != now) {
            row.periods.push_back(Period { number: now, ..Period::default() });
            while row.periods.front().is_some_and(|period| period.number + PERIODS <= now) {
                row.periods.pop_front();
            }
        }
        let Some(period) = row.periods.back_mut() else { return };
        period.requests += 1;
        if !is_answered {
            return;
        }
        period.answered += 1;
        period.streamed += u64::from(request.stream);
        let number = period.answered;
        let mut is_called = false;
        // Filters run in the same order in all requests, so the search for the next starts after the last.
        let mut at = 0;
        trace.with_records(|records| {
            for record in records {
                match record.hook {
                    "tool" => is_called = true,
                    "model" => {}
                    // The filter was called but did not do its work.
                    _ if matches!(record.word, "breaker_open" | "failed" | "ignored") => {}
                    hook => {
                        let is_it = |run: &Run| is_same(run.hook, hook) && is_same(&run.plugin, &record.name);
                        let behind = period.runs.iter().skip(at).position(is_it).map(|found| at + found);
                        let found = behind.or_else(|| period.runs.iter().take(at).position(is_it));
                        let found = found.unwrap_or_else(|| {
                            let plugin = record.name.clone();
                            period.runs.push(Run { hook, plugin, count: 0, last: 0 });
                            period.runs.len() - 1
                        });
                        let run = &mut period.runs[found];
                        run.count += u64::from(run.last != number);
                        run.last = number;
                        at = found + 1;
                    }
                }
            }
        });
        period.called += u64::from(is_called);
    }

    /// Returns the rows of the last hour, those with the most requests first.
    pub fn rows(&self) -> Vec<GuardCoverageRow> {
        let now = self.started.elapsed().as_secs() / PERIOD;
        let rows = self.rows.lock();
        let mut all: Vec<GuardCoverageRow> = rows
            .values()
            .map(|row| {
                let mut sum = GuardCoverageRow {
                    endpoint: row.endpoint.to_owned(),
                    model: row.model.clone(),
                    user: row.user.clone(),
                    ..GuardCoverageRow::default()
                };
                for period in row.periods.iter().filter(|period| period.number + PERIODS > now) {
                    sum.requests += period.requests;
                    sum.answered += period.answered;
                    sum.streamed += period.streamed;
                    sum.called += period.called;
                    period.runs.iter().for_each(|run| sum.add_runs(run.hook, &run.plugin, run.count));
                }
                sum
            })
            .filter(|row| row.requests > 0)
            .collect();
        drop(rows);
        GuardCoverageRow::sort(&mut all);
        all
    }
}

impl GuardCoverageRow {
    fn add_runs(&mut self, hook: &str, plugin: &str, count: u64) {
        match self.runs.iter_mut().find(|(own, id, _)| own == hook && id == plugin) {
            Some((.., own)) => *own += count,
            None => self.runs.push((hook.to_owned(), plugin.to_owned(), count)),
        }
    }

    fn sort(rows: &mut [Self]) {
        rows.sort_by(|a, b| {
            let name = |row: &Self| (row.endpoint.clone(), row.model.clone(), row.user.clone());
            b.requests.cmp(&a.requests).then_with(|| name(a).cmp(&name(b)))
        });
    }

    /// Merges the rows of several hosts.
    pub fn merged(rows: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for row in rows {
            let is_it = |own: &&mut Self| {
                own.endpoint == row.endpoint && own.model == row.model && own.user == row.user
            };
            let Some(own) = all.iter_mut().find(is_it) else {
                all.push(row);
                continue;
            };
            own.requests += row.requests;
            own.answered += row.answered;
            own.streamed += row.streamed;
            own.called += row.called;
            row.runs.iter().for_each(|(hook, plugin, count)| own.add_runs(hook, plugin, *count));
        }
        Self::sort(&mut all);
        all
    }

    /// Converts the row to the form stored by hosts: `[endpoint, model, user, requests, answered, streamed,
    /// called, [[hook, plugin, count], …]]`.
    pub fn to_json(&self) -> Json {
        let runs = self.runs.iter().map(|(hook, plugin, count)| {
            Json::from(vec![Json::from(hook.as_str()), plugin.as_str().into(), (*count).into()])
        });
        let counts = [self.requests, self.answered, self.streamed, self.called];
        let names = [&self.endpoint, &self.model, &self.user].map(|name| Json::from(name.as_str()));
        let runs: Vec<Json> = runs.collect();
        let all = names.into_iter().chain(counts.map(Json::from)).chain([Json::from(runs)]);
        all.collect::<Vec<Json>>().into()
    }

    /// Reads a row created by [`GuardCoverageRow::to_json`]; missing parts are empty.
    pub fn from_json(json: &Json) -> Self {
        let parts = json.items();
        let text = |value: Option<&Json>| value.map_or("", Json::str_or_empty).to_owned();
        let number = |value: Option<&Json>| {
            value.and_then(|value| value.as_i64()).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
        };
        let runs = parts.get(7).into_iter().flat_map(Json::items).map(|run| {
            let run = run.items();
            (text(run.first()), text(run.get(1)), number(run.get(2)))
        });
        Self {
            endpoint: text(parts.first()),
            model: text(parts.get(1)),
            user: text(parts.get(2)),
            requests: number(parts.get(3)),
            answered: number(parts.get(4)),
            streamed: number(parts.get(5)),
            called: number(parts.get(6)),
            runs: runs.collect(),
        }
    }
}
