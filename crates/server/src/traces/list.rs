//! Routes for the requests in progress and the latest ended ones, and for the recording of their values.

use crate::api::{Answer, Body, JsonOf, Path, Query, Reply};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::did_you_mean;
use valvehouse_core::trace::Trace;
use valvehouse_host::app::App;
use valvehouse_host::traces::{self, ListedTrace, WholeTrace};
use valvehouse_host::usage;
use valvehouse_json::Json;
use valvehouse_store::{TraceCursorError, TraceFilter};

/// The default number of listed traces that ended.
const LISTED: u64 = 50;
/// The maximum number.
const MAX_LISTED: u64 = 1_000;

/// Requests in progress and the last ones that ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct Traces {
    /// The requests in progress on this host.
    live: Vec<JsonOf<ListedTrace>>,
    /// The requests that ended, the latest start first; those of all hosts if requests are stored.
    past: Vec<JsonOf<ListedTrace>>,
    /// The `cursor` of the requests that follow; null at the end.
    next: Option<String>,
    /// Set if the list is that of the store.
    stored: bool,
    /// The reason why the store cannot be read; the list is that of this host since its start.
    problem: Option<String>,
}

/// Handles `GET /api/v1/traces`.
pub(super) async fn all(State(app): State<Arc<App>>, Query(query): Query<TraceQuery>) -> Answer<Traces> {
    let limit = query.limit.unwrap_or(LISTED).min(MAX_LISTED);
    let filter = query.filter()?;
    let own = |traces: Vec<Arc<Trace>>| {
        let rows = traces.into_iter().map(|trace| traces::row(&app.host, &trace));
        rows.filter(|row| filter.selects(row)).map(|row| (row.at, row.facts)).collect::<Vec<_>>()
    };
    // In this order, a request that ends in between is listed twice instead of not at all.
    let live = own(app.traces.live());
    let (mut problem, mut past) = (None, None);
    if app.trace_store.is_on() {
        app.trace_store.write().await;
        match app.host.store().traces(&filter, limit + 1).await {
            Ok(rows) => past = Some(rows),
            Err(error) => problem = Some(format!("cannot {error}")),
        }
    }
    let stored = past.is_some();
    let mut past = past.unwrap_or_else(|| {
        let mut past = own(app.traces.past());
        past.sort_by(|(one, _), (other, _)| other.cmp(one));
        past
    });
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = past.len() > limit;
    past.truncate(limit);
    let next = past.last().filter(|_| has_more).map(|(at, _)| at.to_string());
    let summaries = |rows: Vec<(_, Json)>| rows.into_iter().map(|(_, summary)| summary.into()).collect();
    Ok(Reply(Traces { live: summaries(live), past: summaries(past), next, stored, problem }))
}

/// The query of the list of requests.
#[derive(Deserialize, JsonSchema)]
pub(super) struct TraceQuery {
    /// The maximum number of requests that ended, 50 by default and at most 1000.
    limit: Option<u64>,
    /// Only requests to this model.
    model: Option<String>,
    /// Only requests of this user.
    user: Option<String>,
    /// Only requests of the key with this name.
    key: Option<String>,
    /// Only requests that called this plugin.
    plugin: Option<String>,
    /// Only requests with this HTTP status, such as `429`, or one of a class, `4xx`.
    #[schemars(example = &"4xx")]
    status: Option<String>,
    /// Only requests that ended in this way: `succeeded`, `refused`, `failed`, `breaker_open` or `disconnected`.
    outcome: Option<String>,
    /// `true` for failed requests only, `false` for successful ones only.
    failed: Option<bool>,
    /// Only requests that took at least this time, in milliseconds.
    min_ms: Option<u64>,
    /// Only requests that began then or later: a moment in RFC 3339, a day in UTC, or a length before now.
    #[schemars(example = &"7d")]
    from: Option<String>,
    /// Only requests that began before, in the same forms.
    to: Option<String>,
    /// The `next` of a list, for the requests that follow.
    cursor: Option<String>,
}

impl TraceQuery {
    fn filter(self) -> Result<TraceFilter, Error> {
        let time = |part, text: Option<String>| {
            let time = usage::time(part, text.as_deref());
            let time = time.map_err(|why| Error::invalid(why.to_string(), Some(part)))?;
            Ok::<_, Error>(time.map(|seconds| seconds.saturating_mul(1_000_000)))
        };
        let before = self.cursor.map(|cursor| cursor.parse()).transpose();
        Ok(TraceFilter {
            key: self.key,
            user: self.user,
            model: self.model,
            plugin: self.plugin,
            status: self.status.map(|text| statuses(&text)).transpose()?,
            outcome: self.outcome,
            failed: self.failed,
            min_ms: self.min_ms,
            from: time("from", self.from)?,
            to: time("to", self.to)?,
            before: before
                .map_err(|why: TraceCursorError| Error::invalid(why.to_string(), Some("cursor")))?,
        })
    }
}

/// Reads a status or a class of them: its first and last one.
fn statuses(text: &str) -> Result<[u64; 2], Error> {
    let [first, last] = ["0", "9"].map(|digit| text.replace('x', digit).parse().ok());
    let is_status = text.len() == 3 && (text.ends_with("xx") || !text.contains('x'));
    let invalid =
        || Error::invalid("invalid status: expected one such as 429, or a class such as 4xx", Some("status"));
    first.zip(last).filter(|_| is_status).map(<[u64; 2]>::from).ok_or_else(invalid)
}

/// The path of a trace.
#[derive(Deserialize, JsonSchema)]
pub(super) struct TracePath {
    /// The id of a request, from its header `x-valvehouse-trace`.
    pub(super) id: String,
}

/// Handles `GET /api/v1/traces/{id}`.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(path): Path<TracePath>,
) -> Answer<JsonOf<WholeTrace>> {
    let unknown = match find(&app, &path.id) {
        Ok(trace) => return Ok(Reply(traces::detail(&app.host, &trace).into())),
        Err(unknown) => unknown,
    };
    if !app.trace_store.is_on() {
        return Err(unknown.into());
    }
    let stored = app.host.store().trace(&path.id).await?;
    Ok(Reply(traces::stored_detail(stored.ok_or(unknown)?).into()))
}

/// Returns the trace with this id in the memory of this host.
pub(super) fn find(app: &App, id: &str) -> Result<Arc<Trace>, Error> {
    app.traces.find(id).ok_or_else(|| Error::Request {
        message: format!(
            "unknown trace `{id}`: this host has its last {} requests since its start in memory ([trace] turns), and requests are {}",
            app.traces.kept(),
            if app.trace_store.is_on() { "stored for a limited time ([trace] store)" } else { "not stored ([trace] store)" }
        ),
        param: None,
        code: Some("trace_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}

/// The plugins whose values are recorded.
#[derive(Serialize, JsonSchema)]
pub(super) struct Contents {
    plugins: Vec<String>,
}

impl Contents {
    fn of(app: &App) -> Reply<Self> {
        Reply(Self { plugins: app.traces.contents().iter().map(ToString::to_string).collect() })
    }
}

/// Handles `GET /api/v1/traces/contents`.
pub(super) async fn contents(State(app): State<Arc<App>>) -> Reply<Contents> {
    Contents::of(&app)
}

/// The path of a plugin's contents.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ContentsPath {
    /// The id of the plugin: the name of its file without the extension.
    #[schemars(example = &"polite")]
    plugin: String,
}

/// The recording of a plugin's values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({"keep": true}))]
pub(super) struct KeepContents {
    /// Set to record the plugin's values from now on.
    keep: bool,
}

/// Handles `PUT /api/v1/traces/contents/{plugin}`.
pub(super) async fn keep_contents(
    State(app): State<Arc<App>>,
    Path(ContentsPath { plugin }): Path<ContentsPath>,
    Body(KeepContents { keep }): Body<KeepContents>,
) -> Answer<Contents> {
    if keep {
        known(&app, &plugin)?;
    }
    app.traces.keep_contents(&plugin, keep);
    Ok(Contents::of(&app))
}

/// Rejects an unknown plugin.
pub(super) fn known(app: &App, plugin: &str) -> Result<(), Error> {
    let snapshot = app.host.snapshot();
    if snapshot.plugins.contains_key(plugin) {
        return Ok(());
    }
    let hint = did_you_mean(plugin, snapshot.plugins.keys().map(|id| &**id));
    Err(Error::Request {
        message: format!("unknown plugin `{plugin}`{hint}"),
        param: Some("plugin"),
        code: Some("plugin_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}
