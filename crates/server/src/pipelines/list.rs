//! The list of models and filters for Open WebUI, and the list of filters on its page.

use crate::api::{AnyObject, JsonOf, Reply};
use crate::{openai, scope};
use axum::extract;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use valvehouse_core::described;
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot, State};
use valvehouse_json::Json;

described! {
    /// The models in OpenAI's format, and the filters that Open WebUI calls.
    pub(super) struct ModelsAndFilters;
    fn with_filters(data: Vec<Json>) {
        data: Vec<AnyObject> = data,
        object: String = "list",
        /// Omitted if filters are hidden.
        #[serde(skip_serializing_if = "Option::is_none")]
        pipelines: Option<bool> = true,
    }
}

/// Handles `GET /models`.
pub(super) async fn models(
    extract::State(app): extract::State<Arc<App>>,
    parts: Parts,
) -> Reply<JsonOf<ModelsAndFilters>> {
    let models = scope::visible(&app, &parts, openai::catalog::list(&app.host.snapshot()).await);
    Reply(list_of(&app, models).into())
}

/// Returns a list of models, followed by the filters unless they are hidden. Open WebUI recognizes a
/// pipelines server by the field `pipelines`.
pub(crate) fn list_of(app: &App, models: Vec<Json>) -> Json {
    if !app.config.server.pipelines {
        return Json::from([("object", "list".into()), ("data", models.into())]);
    }
    let snapshot = app.host.snapshot();
    for model in models.iter().filter(|model| model.text("id").is_some_and(|id| fits_a_path(&id))) {
        // With this field, Open WebUI sends the user of a chat, and calls the inlet of the model last.
        let pipe = Json::from([("type", "pipe".into()), ("valves", false.into())]);
        // This object is not shared, so it accepts any value.
        model.edit("pipeline", pipe);
    }
    let filters = snapshot.filters().filter(|plugin| is_listed(plugin));
    let filters = filters.map(|plugin| entry(&snapshot, plugin));
    with_filters(models.iter().cloned().chain(filters).collect())
}

/// Returns `true` if a model's name can be used in a path unchanged. It may contain up to two slashes, as the
/// routes allow.
fn fits_a_path(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:@".contains(&byte))
    };
    parts.len() <= 3 && parts.iter().all(is_plain)
}

/// Returns `true` if Open WebUI should call the hooks of a filter: it has an inlet or an outlet, or it is a
/// guard whose hooks run only in chats of this host. Toggles cannot be selected there.
fn is_listed(plugin: &Plugin) -> bool {
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

/// Returns the models of a filter: `*` for all, or those that list it.
fn models_of(snapshot: &Snapshot, plugin: &Plugin) -> Vec<Json> {
    if plugin.global {
        return vec!["*".into()];
    }
    let models = snapshot.plan().models.iter();
    let listing = models.filter(|model| model.filters.iter().any(|id| **id == *plugin.id));
    listing.map(|model| model.name.as_str().into()).collect()
}

/// Returns the priority as a whole number if possible. A guard that cannot run comes first.
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

/// Returns the title, which names the hooks of a guard that Open WebUI cannot call.
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
    /// Set if the filter has valves.
    valves: bool,
}

/// Handles `GET /pipelines`: lists all filters, including those that Open WebUI does not call.
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

/// Handles `POST /pipelines/reload`: waits for a scan of the files, which are watched in any case.
pub(super) async fn reload(extract::State(app): extract::State<Arc<App>>) -> Reply<ReloadResult> {
    let snapshot = app.host.reload().await;
    let wrong = snapshot.plugins.values().filter(|plugin| !plugin.state.problems().is_empty()).count();
    let message = match wrong {
        0 => "Pipelines reloaded successfully.".to_owned(),
        wrong => format!("Pipelines reloaded; {wrong} of them do not load."),
    };
    Reply(ReloadResult { message })
}
