//! Plugins in the format of Open WebUI's Functions API.

use crate::api::{AnyObject, Path, Query, Reply};
use crate::problem::{self, ProblemReport};
use crate::reply::{body, json_response};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use valvehouse_host::admin::AdminError;
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot};
use valvehouse_json::Json;
use valvehouse_script::{Kind, beginning};
use valvehouse_store::{Span, hash};

/// A plugin in the format of Open WebUI's functions.
#[derive(Serialize, JsonSchema)]
pub(super) struct Function {
    id: String,
    /// Always empty, because plugins belong to the host.
    user_id: &'static str,
    /// The title.
    name: String,
    #[schemars(extend("enum" = ["filter", "tool", "action"]))]
    r#type: &'static str,
    /// The text of the script; only for single functions and exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The hash of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    meta: FunctionMeta,
    /// Set if the plugin is enabled.
    is_active: bool,
    /// Set if the plugin runs for every model.
    is_global: bool,
    /// The time in seconds since 1970.
    created_at: i64,
    /// The time in seconds since 1970.
    updated_at: i64,
    #[schemars(extend("enum" = ["filter", "tool", "action"]))]
    kind: &'static str,
    #[schemars(extend("enum" = ["live", "stale", "broken", "missing", "breaker_open"]))]
    state: &'static str,
    /// The number of the newest version; null if none is stored.
    version: Option<u64>,
    problems: Vec<ProblemReport>,
    /// The stored values; only in an export that includes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    valves: Option<Json>,
}

/// The description of a plugin in its own text.
#[derive(Serialize, JsonSchema)]
struct FunctionMeta {
    description: String,
    /// The frontmatter.
    manifest: BTreeMap<String, String>,
    /// Set if users can enable the plugin for single requests.
    toggle: bool,
}

/// The path of a function.
#[derive(Deserialize, JsonSchema)]
pub(super) struct FunctionPath {
    /// The id of the plugin: the name of its file without the extension.
    #[schemars(example = &"polite")]
    pub(super) id: String,
}

/// The query of an export.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ExportQuery {
    /// Set to include the stored values of valves.
    include_valves: Option<bool>,
}

/// Handles `GET /api/v1/functions/`: lists all plugins without their text.
pub(super) async fn list(State(app): State<Arc<App>>) -> FunctionAnswer<Vec<Function>> {
    answer(&app, all(&app, FunctionDetail::Nothing).await)
}

/// Handles `GET /api/v1/functions/export`: returns all plugins with their text, without secrets.
pub(super) async fn export(
    State(app): State<Arc<App>>,
    Query(query): Query<ExportQuery>,
) -> FunctionAnswer<Vec<Function>> {
    let with = match query.include_valves {
        Some(true) => FunctionDetail::ContentAndValves,
        _ => FunctionDetail::Content,
    };
    answer(&app, all(&app, with).await)
}

/// Handles `GET /api/v1/functions/id/{id}`.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(path): Path<FunctionPath>,
) -> FunctionAnswer<Function> {
    answer(&app, one(&app, &app.host.snapshot(), &path.id).await)
}

/// Returns one plugin of a snapshot with its text.
pub(super) async fn one(app: &App, snapshot: &Snapshot, id: &str) -> Result<Function, AdminError> {
    let plugin = valvehouse_host::admin::known(snapshot, id)?;
    let spans = app.host.store().spans().await?;
    let span = spans.iter().find(|span| *span.plugin == *plugin.id);
    Ok(view(app, plugin, span, FunctionDetail::Content))
}

/// The level of detail in the description of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FunctionDetail {
    Nothing,
    Content,
    ContentAndValves,
}

async fn all(app: &App, with: FunctionDetail) -> Result<Vec<Function>, AdminError> {
    let spans = app.host.store().spans().await?;
    let snapshot = app.host.snapshot();
    let mut all = Vec::with_capacity(snapshot.plugins.len());
    for plugin in snapshot.plugins.values() {
        let span = spans.binary_search_by(|span| (*span.plugin).cmp(&plugin.id)).ok();
        let mut function = view(app, plugin, span.map(|place| &spans[place]), with);
        if with == FunctionDetail::ContentAndValves {
            function.valves = Some(app.admin.stored_valves(&plugin.id, None).await?);
        }
        all.push(function);
    }
    Ok(all)
}

fn view(app: &App, plugin: &Plugin, span: Option<&Span>, with: FunctionDetail) -> Function {
    let title = plugin.script.as_ref().map_or(&*plugin.id, |script| script.manifest.title(&plugin.id));
    let written = || seconds_of_file(plugin);
    let content = (with != FunctionDetail::Nothing).then(|| content(plugin));
    Function {
        id: plugin.id.to_string(),
        user_id: "",
        name: title.to_owned(),
        r#type: plugin.kind.as_str(),
        hash: content.as_deref().map(hash),
        content,
        meta: meta(plugin),
        is_active: plugin.enabled,
        is_global: plugin.global,
        created_at: span.map_or_else(written, |span| span.first_at / 1000),
        updated_at: span.map_or_else(written, |span| span.last_at / 1000),
        kind: plugin.kind.as_str(),
        state: plugin.state_name(),
        version: span.map(|span| span.last),
        problems: problem::of_plugin(app, plugin),
        valves: None,
    }
}

/// Returns the text of the file or, if it is missing, of the version that ran last.
pub(super) fn content(plugin: &Plugin) -> String {
    let text = beginning(&plugin.path);
    match &plugin.script {
        Some(script) if text.is_empty() && !plugin.path.exists() => script.file.text.to_string(),
        _ => text,
    }
}

fn meta(plugin: &Plugin) -> FunctionMeta {
    let manifest = plugin.script.as_ref().map(|script| &script.manifest);
    let words = manifest.into_iter().flat_map(|manifest| &manifest.frontmatter);
    FunctionMeta {
        description: manifest.and_then(|manifest| manifest.get("description")).unwrap_or("").to_owned(),
        manifest: words.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        toggle: plugin.kind == Kind::Filter && plugin.is_toggle(),
    }
}

/// Returns the modification time of the file in seconds since 1970, for a plugin without a stored version.
fn seconds_of_file(plugin: &Plugin) -> i64 {
    let written = std::fs::metadata(&plugin.path).and_then(|metadata| metadata.modified()).ok();
    let since = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}

/// The result of a route for functions.
pub(super) type FunctionAnswer<T> = Result<Reply<T>, FunctionError>;

/// An error in Open WebUI's format, with the problems of the script that caused it.
pub(super) struct FunctionError(Box<Response>);

impl IntoResponse for FunctionError {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// Converts the result of a route.
pub(super) fn answer<T>(app: &App, result: Result<impl Into<T>, AdminError>) -> FunctionAnswer<T> {
    result.map(|value| Reply(value.into())).map_err(|refused| FunctionError(Box::new(refusal(app, &refused))))
}

fn refusal(app: &App, refused: &AdminError) -> Response {
    tracing::debug!("refused: {refused}");
    let refusal_json = Json::from([("detail", body(&refused.error).at_path("error.message"))]);
    if !refused.problems.is_empty() {
        let problems = refused.problems.iter().map(|one| problem::report(app, one, Some(&one.id), "file"));
        let problems = problems.map(|report| serde_json::to_value(report).unwrap_or(Value::Null).into());
        // A new object accepts any key.
        refusal_json.put("problems", problems.collect::<Vec<Json>>());
    }
    let status = StatusCode::from_u16(refused.error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(status, &refusal_json)
}
