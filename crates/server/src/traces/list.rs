//! The requests that run and the last ones that ended, and whose values are kept of them.

use crate::extract::{Id, Words, object};
use crate::reply::answer;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::trace::Trace;
use valvehouse_core::words::did_you_mean;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The default number of listed traces that ended.
const LISTED: u64 = 50;

/// `GET /api/v1/traces?limit=&model=&user=&plugin=&failed=`
pub(super) async fn all(State(app): State<Arc<App>>, words: Words) -> Response {
    answer(listed(&app, &words))
}

fn listed(app: &App, words: &Words) -> Result<Json, Error> {
    let wanted = TraceQuery::of(words)?;
    let limit = usize::try_from(words.number("limit")?.unwrap_or(LISTED)).unwrap_or(usize::MAX);
    let told = |traces: Vec<Arc<Trace>>, limit| -> Json {
        let those = traces.iter().filter(|trace| wanted.is_met_by(trace));
        those.take(limit).map(|trace| trace.summary()).collect::<Vec<_>>().into()
    };
    // One that ends in between is in both rather than in none.
    let (live, past) = (app.traces.live(), app.traces.past());
    Ok(Json::from([("live", told(live, usize::MAX)), ("past", told(past, limit))]))
}

/// The requests that are asked for.
struct TraceQuery {
    model: Option<String>,
    user: Option<String>,
    plugin: Option<String>,
    failed: Option<bool>,
}

impl TraceQuery {
    fn of(words: &Words) -> Result<Self, Error> {
        let failed = match words.text("failed").as_deref() {
            None => None,
            Some("true" | "1") => Some(true),
            Some("false" | "0") => Some(false),
            Some(_) => return Err(Error::invalid("`failed` must be true or false", Some("failed"))),
        };
        let (model, user, plugin) = (words.text("model"), words.text("user"), words.text("plugin"));
        Ok(Self { model, user, plugin, failed })
    }

    fn is_met_by(&self, trace: &Trace) -> bool {
        let is = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
        let has_failed = || match trace.ended() {
            Some(ended) => ended.error.is_some() || ended.status >= 400 || !ended.whole,
            None => trace.error().is_some(),
        };
        is(&self.model, &trace.asked.model)
            && is(&self.user, &trace.asked.user)
            && self.plugin.as_deref().is_none_or(|plugin| trace.has_called(plugin))
            && self.failed.is_none_or(|failed| failed == has_failed())
    }
}

/// `GET /api/v1/traces/{id}`
pub(super) async fn one(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    answer(find(&app, &id).map(|trace| trace.detail()))
}

/// The request of that id.
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

/// `GET /api/v1/traces/contents`: the plugins whose values are kept.
pub(super) async fn contents(State(app): State<Arc<App>>) -> Response {
    answer(Ok(kept(&app)))
}

fn kept(app: &App) -> Json {
    let plugins = app.traces.contents().iter().map(|plugin| plugin.as_str().into()).collect::<Vec<Json>>();
    Json::from([("plugins", plugins.into())])
}

/// `PUT /api/v1/traces/contents/{plugin} {keep}`
pub(super) async fn keep_contents(State(app): State<Arc<App>>, Id(plugin): Id, body: Body) -> Response {
    let set = async {
        let body = object(&app, body).await?;
        let keep = body.get("keep").and_then(|keep| keep.as_bool());
        let keep = keep.ok_or_else(|| Error::invalid("`keep` must be true or false", Some("keep")))?;
        if keep {
            known(&app, &plugin)?;
        }
        app.traces.keep_contents(&plugin, keep);
        Ok(kept(&app))
    };
    answer(set.await)
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
