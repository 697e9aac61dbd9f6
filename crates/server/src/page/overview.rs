//! `/api/v1/overview`: plugins, models, providers and their problems in one response.

use crate::api::{AnyObject, List, Query, Reply};
use crate::problem::{self, ProblemReport};
use axum::extract::State;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_core::metrics::{Sum, TargetReport};
use valvehouse_core::tool::Tool;
use valvehouse_host::app::App;
use valvehouse_host::{ListedTool, Passes, Plugin, Snapshot};
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
    /// The services that may answer, in order: that of a configured model, then its fallbacks.
    answered_by: Vec<AnsweringModel>,
    /// The price of a million tokens by their kind, or null.
    #[schemars(with = "Option<AnyObject>")]
    price: Json,
    /// The maximum number of tokens of a request with its answer, or null.
    #[schemars(with = "Option<u64>")]
    context_length: Json,
    /// The maximum number of model calls in one turn, or null.
    #[schemars(with = "Option<u64>")]
    max_tool_iterations: Json,
    /// The ids of the guards that run in its chats, in audit mode or not.
    guards: Vec<String>,
    /// The sentence of `/readyz` if all requests to the model are refused.
    refused: Option<String>,
    /// Set if the model stores conversations.
    #[schemars(with = "serde_json::Value")]
    memory: Json,
    /// The names of the model's tools.
    tools: Vec<String>,
    /// The buttons under the model's answers.
    #[schemars(with = "Vec<serde_json::Value>")]
    actions: Vec<Json>,
}

/// A model of a provider.
#[derive(Serialize, JsonSchema)]
struct AnsweringModel {
    provider: String,
    /// The name of the model at the provider.
    model: String,
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
    /// `breaker_open` while a circuit breaker of the provider is open.
    #[schemars(extend("enum" = ["used", "breaker_open"]))]
    state: &'static str,
    /// The kind of service in the configuration; empty for a provider that a program added.
    kind: &'static str,
    /// The hosts of its addresses, with the port if it is unusual; empty for a provider in this process.
    addresses: Vec<String>,
    /// The names of models that clients can request without `[[models]]`, `*` for any.
    passes: Vec<String>,
    /// Set if each client pays with its own key.
    clients_pay: bool,
    /// Its open circuit breakers; each model has its own.
    breakers: Vec<OpenBreaker>,
    /// The last failure since the start of this host, or null.
    last_failure: Option<LastFailure>,
    /// The keys and deployments that share its requests; empty unless there are several.
    targets: Vec<OverviewTarget>,
}

/// An open circuit breaker.
#[derive(Serialize, JsonSchema)]
struct OpenBreaker {
    /// The seconds since it opened.
    since_s: u64,
    /// The seconds until the next request is tried; 0 if it is tried at once.
    next_try_s: u64,
    /// The model of the provider with its last failure.
    cause: String,
}

/// The failure of a request to a provider.
#[derive(Serialize, JsonSchema)]
struct LastFailure {
    #[schemars(with = "String", extend("format" = "date-time"))]
    at: Timestamp,
    message: String,
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
            answered_by: answered_by(snapshot, &id),
            price: facts.field("price"),
            context_length: facts.field("context_length"),
            max_tool_iterations: facts.field("max_tool_iterations"),
            guards: snapshot.guards_for(&id),
            refused: snapshot.refused_model(&id).map(|refused| refused.to_string()),
            tools: snapshot.offered(&id).iter().map(Tool::name).map(str::to_owned).collect(),
            actions: snapshot.buttons_of(&id),
            id,
        }
    });
    listed.collect()
}

/// Returns the models of providers that a configured model leads to.
fn answered_by(snapshot: &Snapshot, name: &str) -> Vec<AnsweringModel> {
    let model = snapshot.plan().model(name);
    let leads_to = model.map_or(&[][..], |model| &model.leads_to).iter().cloned();
    leads_to.map(|(provider, model)| AnsweringModel { provider, model }).collect()
}

fn providers(snapshot: &Snapshot) -> Vec<OverviewProvider> {
    let rows = snapshot.plan().providers.iter().map(|plan| {
        let open = plan.provider.open_breakers().into_iter();
        let breakers: Vec<OpenBreaker> = open
            .map(|open| OpenBreaker {
                since_s: open.since.as_secs(),
                next_try_s: open.next_try.as_secs_f64().ceil() as u64,
                cause: open.cause,
            })
            .collect();
        let metrics = plan.provider.metrics();
        let last = metrics.and_then(|metrics| metrics.last_failure());
        OverviewProvider {
            name: plan.provider.name().to_owned(),
            state: if breakers.is_empty() { "used" } else { "breaker_open" },
            kind: plan.kind,
            addresses: plan.addresses.clone(),
            passes: match &plan.passes {
                Passes::Nothing => Vec::new(),
                Passes::Everything => vec!["*".to_owned()],
                Passes::These(names) => names.clone(),
            },
            clients_pay: plan.is_paid_by_callers,
            breakers,
            last_failure: last
                .and_then(|(at, message)| Some(LastFailure { at: at.try_into().ok()?, message })),
            targets: metrics.map_or_else(Vec::new, |metrics| {
                metrics.targets().reports().into_iter().map(OverviewTarget::from).collect()
            }),
        }
    });
    rows.collect()
}
