//! `/api/v1/overview`: plugins, models, providers and their problems in one response.

use crate::api::{List, Query, Reply};
use crate::problem::{self, ProblemReport};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_core::metrics::{Sum, TargetReport};
use valvehouse_core::tool::Tool;
use valvehouse_host::app::App;
use valvehouse_host::{ListedTool, Plugin, Snapshot};
use valvehouse_json::Json;

/// The state of a host.
#[derive(Serialize, JsonSchema)]
pub(super) struct Overview {
    version: &'static str,
    /// The number of the running set of plugins.
    generation: u64,
    uptime_s: u64,
    /// The problems, errors first.
    problems: Vec<ProblemReport>,
    /// The models that are known without a request to a provider.
    models: Vec<OverviewModel>,
    plugins: Vec<OverviewPlugin>,
    providers: Vec<OverviewProvider>,
}

/// A model.
#[derive(Serialize, JsonSchema)]
struct OverviewModel {
    id: String,
    /// The name of the provider, or null.
    #[schemars(with = "serde_json::Value")]
    provider: Json,
    /// Set if the model stores conversations.
    #[schemars(with = "serde_json::Value")]
    memory: Json,
    /// The names of the model's tools.
    tools: Vec<String>,
    /// The buttons under the model's answers.
    #[schemars(with = "Vec<serde_json::Value>")]
    actions: Vec<Json>,
}

/// A plugin.
#[derive(Serialize, JsonSchema)]
struct OverviewPlugin {
    id: String,
    #[schemars(extend("enum" = ["filter", "tool", "action"]))]
    kind: &'static str,
    title: String,
    description: Option<String>,
    version: Option<String>,
    author: Option<String>,
    #[schemars(extend("enum" = ["live", "stale", "broken", "missing", "breaker_open", "held"]))]
    state: &'static str,
    enabled: bool,
    /// The effect of a filter: in audit mode, its verdicts and changes are counted and traced instead of applied.
    #[schemars(extend("enum" = ["enforce", "audit"]))]
    mode: &'static str,
    /// Set if the plugin runs for every model.
    global: bool,
    /// Set if the plugin is a guard.
    security: bool,
    /// The hooks that run in chats only.
    chats_only: Vec<&'static str>,
    /// Set if users can enable the plugin for single requests.
    toggle: bool,
    priority: Option<f64>,
    hooks: Vec<&'static str>,
    tools: Vec<String>,
    /// The ids of the buttons that the plugin adds to answers.
    buttons: Vec<String>,
    /// The path of the file, relative to the project.
    path: String,
    has_valves: bool,
    has_user_valves: bool,
    /// Set if the plugin's values are recorded.
    contents: bool,
    stats: PluginStats,
}

/// The calls of a plugin.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PluginStats {
    calls: u64,
    /// The number of calls that failed.
    broken: u64,
    mean_us: f64,
}

impl From<Sum> for PluginStats {
    fn from(sum: Sum) -> Self {
        let mean_us = sum.mean_time().as_nanos() as f64 / 1_000.0;
        Self { calls: sum.calls, broken: sum.broken, mean_us }
    }
}

/// A provider.
#[derive(Serialize, JsonSchema)]
struct OverviewProvider {
    name: String,
    /// `breaker_open` while the provider's circuit breaker is open.
    #[schemars(extend("enum" = ["used", "breaker_open"]))]
    state: &'static str,
    /// The keys and deployments that share its requests; empty unless there are several.
    targets: Vec<OverviewTarget>,
}

/// A key or deployment of a provider.
#[derive(Serialize, JsonSchema)]
struct OverviewTarget {
    /// The name of the deployment, or the position of the key.
    name: String,
    /// The number of requests that were sent to it.
    calls: u64,
    /// The seconds for which it still rests after a refusal or failure; null if it is ready.
    rests_s: Option<u64>,
}

impl From<TargetReport> for OverviewTarget {
    fn from(target: TargetReport) -> Self {
        let rests_s = target.rest.map(|rest| rest.as_secs() + 1);
        Self { name: target.name, calls: target.calls, rests_s }
    }
}

/// Handles `GET /api/v1/overview`.
pub(super) async fn show(State(app): State<Arc<App>>) -> Reply<Overview> {
    let snapshot = app.host.snapshot();
    Reply(Overview {
        version: env!("CARGO_PKG_VERSION"),
        generation: snapshot.generation,
        uptime_s: app.started.elapsed().as_secs(),
        problems: problem::all(&app, &snapshot),
        models: models(&snapshot),
        plugins: snapshot.plugins.values().map(|plugin| of_plugin(&app, plugin)).collect(),
        providers: providers(&snapshot),
    })
}

/// The query of the list of tools.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ToolsQuery {
    /// Only tools with this tag.
    tag: Option<String>,
}

/// Handles `GET /api/v1/tools?tag=`.
pub(super) async fn tools(
    State(app): State<Arc<App>>,
    Query(query): Query<ToolsQuery>,
) -> Reply<List<ListedTool>> {
    List::reply(app.host.snapshot().tool_list(query.tag.as_deref()))
}

fn of_plugin(app: &App, plugin: &Plugin) -> OverviewPlugin {
    let script = plugin.script.as_deref();
    let field = |key: &str| script.and_then(|script| script.manifest.get(key)).map(str::to_owned);
    OverviewPlugin {
        id: plugin.id.to_string(),
        kind: plugin.kind.as_str(),
        title: plugin.title().to_owned(),
        description: field("description"),
        version: field("version"),
        author: field("author"),
        state: if plugin.is_held() { "held" } else { plugin.state_name() },
        enabled: plugin.enabled,
        mode: plugin.mode(),
        global: plugin.global,
        security: plugin.security,
        chats_only: plugin.hooks_of_chats_only(),
        toggle: plugin.is_toggle(),
        priority: plugin.priority(),
        hooks: plugin.hooks(),
        tools: plugin.tool_names().into_iter().map(str::to_owned).collect(),
        buttons: plugin.button_ids().into_iter().map(str::to_owned).collect(),
        path: problem::near(app, &plugin.path).display().to_string(),
        has_valves: script.is_some_and(|script| !script.manifest.valves.fields().is_empty()),
        has_user_valves: script.is_some_and(|script| script.manifest.user_valves.is_some()),
        contents: app.traces.contents().contains(&*plugin.id),
        stats: plugin.sum().into(),
    }
}

/// Returns the models that are known without a request to a provider.
fn models(snapshot: &Snapshot) -> Vec<OverviewModel> {
    let listed = snapshot.listed().items().into_iter().map(|facts| {
        let id = facts.string("id");
        OverviewModel {
            provider: facts.field("provider"),
            memory: facts.get("memory").unwrap_or_else(|| false.into()),
            tools: snapshot.offered(&id).iter().map(Tool::name).map(str::to_owned).collect(),
            actions: snapshot.buttons_of(&id),
            id,
        }
    });
    listed.collect()
}

fn providers(snapshot: &Snapshot) -> Vec<OverviewProvider> {
    let rows = snapshot.plan().providers.iter().map(|plan| OverviewProvider {
        name: plan.provider.name().to_owned(),
        state: if plan.provider.open_breaker().is_some() { "breaker_open" } else { "used" },
        targets: plan.provider.metrics().map_or_else(Vec::new, |metrics| {
            metrics.targets().reports().into_iter().map(OverviewTarget::from).collect()
        }),
    });
    rows.collect()
}
