//! A plugin in the shape of Open WebUI's functions.

use crate::extract::{Id, Words};
use crate::problem;
use crate::reply::{body, json_response, status};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use valvehouse_host::admin::AdminError;
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot};
use valvehouse_json::{Json, Object};
use valvehouse_script::{Kind, beginning};
use valvehouse_store::{Span, hash};

/// `GET /api/v1/functions/`: all of them, without their text.
pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    answer(&app, all(&app, FunctionDetail::Nothing).await)
}

/// `GET /api/v1/functions/export?include_valves=true`: all of them, with their text; secrets stay here.
pub(super) async fn export(State(app): State<Arc<App>>, words: Words) -> Response {
    let with = match words.text("include_valves").as_deref() {
        Some("true" | "1") => FunctionDetail::ContentAndValves,
        _ => FunctionDetail::Content,
    };
    answer(&app, all(&app, with).await)
}

/// `GET /api/v1/functions/id/{id}`
pub(super) async fn show(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    answer(&app, one(&app, &app.host.snapshot(), &id).await)
}

/// One function with its text, as it stands in a snapshot.
pub(super) async fn one(app: &App, snapshot: &Snapshot, id: &str) -> Result<Json, AdminError> {
    let plugin = valvehouse_host::admin::known(snapshot, id)?;
    let spans = app.host.store().spans().await?;
    let span = spans.iter().find(|span| *span.plugin == *plugin.id);
    Ok(told(app, plugin, span, FunctionDetail::Content))
}

/// The detail in which a function is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FunctionDetail {
    Nothing,
    Content,
    ContentAndValves,
}

async fn all(app: &App, with: FunctionDetail) -> Result<Json, AdminError> {
    let spans = app.host.store().spans().await?;
    let snapshot = app.host.snapshot();
    let mut all = Vec::with_capacity(snapshot.plugins.len());
    for plugin in snapshot.plugins.values() {
        let span = spans.binary_search_by(|span| (*span.plugin).cmp(&plugin.id)).ok();
        let function = told(app, plugin, span.map(|place| &spans[place]), with);
        if with == FunctionDetail::ContentAndValves {
            // A fresh object takes any key.
            function.put("valves", app.admin.stored_valves(&plugin.id, None).await?);
        }
        all.push(function);
    }
    Ok(all.into())
}

fn told(app: &App, plugin: &Plugin, span: Option<&Span>, with: FunctionDetail) -> Json {
    let title = plugin.script.as_ref().map_or(&*plugin.id, |script| script.manifest.title(&plugin.id));
    let written = || seconds_of_file(plugin);
    let mut fields: Vec<(&str, Json)> = vec![
        ("id", (*plugin.id).into()),
        ("user_id", "".into()),
        ("name", title.into()),
        ("type", plugin.kind.as_str().into()),
        ("meta", meta(plugin)),
        ("is_active", plugin.enabled.into()),
        ("is_global", plugin.global.into()),
        ("created_at", span.map_or_else(written, |span| span.first_at / 1000).into()),
        ("updated_at", span.map_or_else(written, |span| span.last_at / 1000).into()),
        ("kind", plugin.kind.as_str().into()),
        ("state", plugin.state_name().into()),
        ("version", span.map(|span| span.last).into()),
        ("problems", problem::of_plugin(app, plugin).into()),
    ];
    if with != FunctionDetail::Nothing {
        let content = content(plugin);
        fields.insert(4, ("hash", hash(&content).into()));
        fields.insert(4, ("content", content.into()));
    }
    let function: Object = fields.into_iter().map(|(key, value)| (key.into(), value)).collect();
    function.into()
}

/// The text of the file; if it is missing, that of the version that ran last.
fn content(plugin: &Plugin) -> String {
    let text = beginning(&plugin.path);
    match &plugin.script {
        Some(script) if text.is_empty() && !plugin.path.exists() => script.file.text.to_string(),
        _ => text,
    }
}

fn meta(plugin: &Plugin) -> Json {
    let manifest = plugin.script.as_ref().map(|script| &script.manifest);
    let words = manifest.into_iter().flat_map(|manifest| &manifest.frontmatter);
    let words: Object = words.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    let description = manifest.and_then(|manifest| manifest.get("description")).unwrap_or("");
    Json::from([
        ("description", description.into()),
        ("manifest", words.into()),
        ("toggle", (plugin.kind == Kind::Filter && plugin.is_toggle()).into()),
    ])
}

/// The time at which the file was written, where the history has none; in seconds since 1970.
fn seconds_of_file(plugin: &Plugin) -> i64 {
    let written = std::fs::metadata(&plugin.path).and_then(|metadata| metadata.modified()).ok();
    let since = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}

/// The answer, or the fault.
pub(super) fn answer(app: &App, result: Result<Json, AdminError>) -> Response {
    result.map_or_else(|refused| refusal(app, &refused), |value| json_response(StatusCode::OK, &value))
}

fn refusal(app: &App, refused: &AdminError) -> Response {
    tracing::debug!("refused: {refused}");
    let told = Json::from([("detail", body(&refused.fault).at_path("error.message"))]);
    if !refused.problems.is_empty() {
        let problems = refused.problems.iter().map(|one| problem::told(app, one, Some(&one.id), "file"));
        // A fresh object takes any key.
        told.put("problems", problems.collect::<Vec<_>>());
    }
    let status = StatusCode::from_u16(status(&refused.fault)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(status, &told)
}
