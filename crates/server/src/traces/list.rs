//! Routes for the requests in progress and the latest ended ones, and for the recording of their values.

use super::shapes::{Trace as TraceShape, TraceSummary};
use super::sums;
use crate::api::{Answer, Body, JsonOf, Path, Query, Reply};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::did_you_mean;
use valvehouse_core::trace::Trace;
use valvehouse_host::app::App;

/// The default number of listed traces that ended.
const LISTED: u64 = 50;

/// Requests in progress and the last ones that ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct Traces {
    live: Vec<JsonOf<TraceSummary>>,
    past: Vec<JsonOf<TraceSummary>>,
}

/// Handles `GET /api/v1/traces`.
pub(super) async fn all(State(app): State<Arc<App>>, Query(query): Query<TraceQuery>) -> Reply<Traces> {
    let limit = usize::try_from(query.limit.unwrap_or(LISTED)).unwrap_or(usize::MAX);
    let summaries = |traces: Vec<Arc<Trace>>, limit| {
        let those = traces.iter().filter(|trace| query.is_met_by(trace));
        those.take(limit).map(|trace| sums::summary(&app, trace).into()).collect()
    };
    // In this order, a request that ends in between is listed twice instead of not at all.
    let (live, past) = (app.traces.live(), app.traces.past());
    Reply(Traces { live: summaries(live, usize::MAX), past: summaries(past, limit) })
}

/// The query of the list of requests.
#[derive(Deserialize, JsonSchema)]
pub(super) struct TraceQuery {
    /// The maximum number of requests that ended, 50 by default.
    limit: Option<u64>,
    /// Only requests to this model.
    model: Option<String>,
    /// Only requests of this user.
    user: Option<String>,
    /// Only requests that called this plugin.
    plugin: Option<String>,
    /// `true` for failed requests only, `false` for successful ones only.
    failed: Option<bool>,
}

impl TraceQuery {
    fn is_met_by(&self, trace: &Trace) -> bool {
        let is =
            |expected: &Option<String>, own: &str| expected.as_deref().is_none_or(|expected| expected == own);
        let has_failed = || match trace.ended() {
            Some(ended) => ended.error.is_some() || ended.status >= 400 || !ended.whole,
            None => trace.error().is_some(),
        };
        is(&self.model, &trace.request.model)
            && is(&self.user, &trace.request.user)
            && self.plugin.as_deref().is_none_or(|plugin| trace.has_called(plugin))
            && self.failed.is_none_or(|failed| failed == has_failed())
    }
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
) -> Answer<JsonOf<TraceShape>> {
    Ok(Reply(sums::detail(&app, &*find(&app, &path.id)?).into()))
}

/// Returns the trace with this id.
pub(super) fn find(app: &App, id: &str) -> Result<Arc<Trace>, Error> {
    app.traces.find(id).ok_or_else(|| Error::Request {
        message: format!(
            "unknown trace `{id}`: this host keeps its last {} requests since its start ([trace] turns)",
            app.traces.kept()
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
