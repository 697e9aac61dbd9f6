//! `/api/v1/overview`: plugins, models, providers, and their problems, in one answer.

use crate::extract::Words;
use crate::problem;
use crate::reply::{self, json_response};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use std::sync::Arc;
use valvehouse_core::tool::Tool;
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot};
use valvehouse_json::Json;

/// `GET /api/v1/overview`
pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    let snapshot = app.host.snapshot();
    let overview = Json::from([
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("generation", snapshot.generation.into()),
        ("uptime_s", app.started.elapsed().as_secs().into()),
        ("problems", problem::all(&app, &snapshot).into()),
        ("models", models(&snapshot).into()),
        (
            "plugins",
            snapshot.plugins.values().map(|plugin| of_plugin(&app, plugin)).collect::<Vec<_>>().into(),
        ),
        ("providers", providers(&snapshot).into()),
    ]);
    json_response(StatusCode::OK, &overview)
}

/// `GET /api/v1/tools?tag=`
pub(super) async fn tools(State(app): State<Arc<App>>, words: Words) -> Response {
    let tools = app.host.snapshot().tool_list(words.text("tag").as_deref());
    json_response(StatusCode::OK, &reply::list(tools))
}

fn of_plugin(app: &App, plugin: &Plugin) -> Json {
    let script = plugin.script.as_deref();
    let says = |key: &str| script.and_then(|script| script.manifest.get(key)).map(str::to_owned);
    let word = if plugin.is_held() { "held" } else { plugin.state_name() };
    let has_valves = script.is_some_and(|script| !script.manifest.valves.fields().is_empty());
    let has_user_valves = script.is_some_and(|script| script.manifest.user_valves.is_some());
    Json::from([
        ("id", (*plugin.id).into()),
        ("kind", plugin.kind.as_str().into()),
        ("title", plugin.title().into()),
        ("description", says("description").into()),
        ("version", says("version").into()),
        ("author", says("author").into()),
        ("state", word.into()),
        ("enabled", plugin.enabled.into()),
        ("global", plugin.global.into()),
        ("security", plugin.security.into()),
        ("chats_only", list(plugin.hooks_of_chats_only()).into()),
        ("toggle", plugin.is_toggle().into()),
        ("priority", plugin.priority().into()),
        ("hooks", list(plugin.hooks()).into()),
        ("tools", list(plugin.tool_names()).into()),
        ("path", problem::near(app, &plugin.path).display().to_string().into()),
        ("has_valves", has_valves.into()),
        ("has_user_valves", has_user_valves.into()),
        ("contents", app.traces.contents().contains(&*plugin.id).into()),
        ("stats", plugin.sum().in_short()),
    ])
}

/// The models that are known without asking a provider.
fn models(snapshot: &Snapshot) -> Vec<Json> {
    let listed = snapshot.listed().items().into_iter().map(|facts| {
        let id = facts.text_or_empty("id");
        let tools = snapshot.offered(&id).iter().map(Tool::name).collect();
        Json::from([
            ("id", id.as_str().into()),
            ("provider", facts.field("provider")),
            ("memory", facts.get("memory").unwrap_or_else(|| false.into())),
            ("tools", list(tools).into()),
        ])
    });
    listed.collect()
}

fn providers(snapshot: &Snapshot) -> Vec<Json> {
    let told = snapshot.plan().providers.iter().map(|plan| {
        let word = if plan.provider.open_breaker().is_some() { "breaker_open" } else { "used" };
        Json::from([("name", plan.provider.name().into()), ("state", word.into())])
    });
    told.collect()
}

fn list(words: Vec<&str>) -> Vec<Json> {
    words.into_iter().map(Json::from).collect()
}
