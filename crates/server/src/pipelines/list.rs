//! The lists: filters beside the models, as Open WebUI looks for them, and the list of its page.

use crate::api::{AnyObject, JsonOf, Reply};
use crate::openai;
use axum::extract;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot, State};
use valvehouse_json::Json;

/// Models as OpenAI's clients read them, and the filters that Open WebUI shall ask for.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "`list_of` writes it; debug builds compare both")]
pub(super) struct ModelsAndFilters {
    object: String,
    data: Vec<AnyObject>,
    /// Missing if filters are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pipelines: Option<bool>,
}

/// `GET /models`
pub(super) async fn models(extract::State(app): extract::State<Arc<App>>) -> JsonOf<ModelsAndFilters> {
    let models = openai::catalog::list(&app.host.snapshot()).await;
    JsonOf::new(list_of(&app, models))
}

/// A list of models, and the filters after them unless they are hidden. Open WebUI takes whoever says
/// `pipelines` for a pipelines server.
pub(crate) fn list_of(app: &App, models: Vec<Json>) -> Json {
    if !app.config.server.pipelines {
        return Json::from([("object", "list".into()), ("data", models.into())]);
    }
    let snapshot = app.host.snapshot();
    for model in models.iter().filter(|model| model.text("id").is_some_and(|id| fits_a_path(&id))) {
        // Then Open WebUI says whose chat it is, and asks for the model's inlet last of all.
        let pipe = Json::from([("type", "pipe".into()), ("valves", false.into())]);
        // An object that nobody else holds takes any value.
        model.edit("pipeline", pipe);
    }
    let filters = snapshot.filters().filter(|plugin| is_asked(plugin));
    let filters = filters.map(|plugin| entry(&snapshot, plugin));
    let data: Vec<Json> = models.iter().cloned().chain(filters).collect();
    Json::from([("data", data.into()), ("object", "list".into()), ("pipelines", true.into())])
}

/// Returns `true` if a model's name can be put into a path as it is: up to two slashes, see the routes.
fn fits_a_path(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:@".contains(&byte))
    };
    parts.len() <= 3 && parts.iter().all(is_plain)
}

/// Returns `true` if Open WebUI shall ask for the hooks of a filter: it has one that Open WebUI knows, or is a guard
/// that cannot run there and must not be forgotten. A toggle cannot be chosen there.
fn is_asked(plugin: &Plugin) -> bool {
    if !plugin.enabled {
        return false;
    }
    if plugin.refusal().is_some() {
        return true;
    }
    let script = plugin.script.as_ref().filter(|_| plugin.state != State::Missing && !plugin.is_toggle());
    script.is_some_and(|script| {
        let has_hook = script.hooks().any(|hook| matches!(hook.name(), "inlet" | "outlet"));
        has_hook || !plugin.hooks_of_chats_only().is_empty()
    })
}

fn entry(snapshot: &Snapshot, plugin: &Plugin) -> Json {
    let pipeline = Json::from([
        ("type", "filter".into()),
        ("pipelines", models_of(snapshot, plugin).into()),
        ("priority", priority(plugin)),
        ("valves", has_valves(plugin).into()),
    ]);
    Json::from([
        ("id", (*plugin.id).into()),
        ("name", name(plugin).into()),
        ("object", "model".into()),
        ("created", 0_i64.into()),
        ("owned_by", "openai".into()),
        ("pipeline", pipeline),
    ])
}

/// All models, which is a star to Open WebUI, or those that list it.
fn models_of(snapshot: &Snapshot, plugin: &Plugin) -> Vec<Json> {
    if plugin.global {
        return vec!["*".into()];
    }
    let models = snapshot.plan().models.iter();
    let listing = models.filter(|model| model.filters.iter().any(|id| **id == *plugin.id));
    listing.map(|model| model.name.as_str().into()).collect()
}

/// As a whole number where it is one. A guard that cannot run comes before everything else.
fn priority(plugin: &Plugin) -> Json {
    match &plugin.script {
        _ if plugin.refusal().is_some() => i64::from(i32::MIN).into(),
        Some(script) => match script.priority() {
            whole if whole.fract() == 0.0 && whole.abs() < 1e15 => (whole as i64).into(),
            part => part.into(),
        },
        None => 0_i64.into(),
    }
}

fn title(plugin: &Plugin) -> &str {
    plugin.script.as_ref().map_or(&*plugin.id, |script| script.manifest.title(&plugin.id))
}

/// The title; that of a guard whose hooks cannot be asked for says so.
fn name(plugin: &Plugin) -> String {
    let hooks = plugin.hooks_of_chats_only();
    let runs_here = |hook: &&str| matches!(*hook, "inlet" | "outlet");
    match hooks.is_empty() || plugin.hooks().iter().any(runs_here) {
        true => title(plugin).to_owned(),
        false => format!("{} (guard: {} in chats of this host only)", title(plugin), hooks.join(", ")),
    }
}

fn has_valves(plugin: &Plugin) -> bool {
    plugin.script.as_ref().is_some_and(|script| !script.manifest.valves.fields().is_empty())
}

/// All filters.
#[derive(Serialize, JsonSchema)]
pub(super) struct Pipelines {
    data: Vec<Pipeline>,
}

/// A filter.
#[derive(Serialize, JsonSchema)]
struct Pipeline {
    id: String,
    name: String,
    #[schemars(extend("const" = "filter"))]
    r#type: &'static str,
    /// Set if it has valves.
    valves: bool,
}

/// `GET /pipelines`: every filter, also those that are not asked.
pub(super) async fn pipelines(extract::State(app): extract::State<Arc<App>>) -> Reply<Pipelines> {
    let snapshot = app.host.snapshot();
    let filters = snapshot.filters().map(|plugin| Pipeline {
        id: plugin.id.to_string(),
        name: name(plugin),
        r#type: "filter",
        valves: has_valves(plugin),
    });
    Reply(Pipelines { data: filters.collect() })
}

/// The result of a scan.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReloadResult {
    message: String,
}

/// `POST /pipelines/reload`: files are followed anyway; this waits until they were looked at.
pub(super) async fn reload(extract::State(app): extract::State<Arc<App>>) -> Reply<ReloadResult> {
    let snapshot = app.host.reload().await;
    let wrong = snapshot.plugins.values().filter(|plugin| !plugin.state.problems().is_empty()).count();
    let message = match wrong {
        0 => "Pipelines reloaded successfully.".to_owned(),
        wrong => format!("Pipelines reloaded; {wrong} of them do not load."),
    };
    Reply(ReloadResult { message })
}
