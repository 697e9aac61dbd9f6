//! `/api/v1/models/{id}/chain`: returns the filters that run for the requests of a model, in running order,
//! and the reasons why the others do not run.

use crate::api::{Answer, AnyObject, Path, Query, Reply};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_core::filter::Hook;
use valvehouse_core::metrics::PromptCacheCount;
use valvehouse_core::trace::GuardCoverageRow;
use valvehouse_host::app::App;
use valvehouse_host::{FilterDecision, GuardCoverageTable, HostPart, Part, Plugin, SharedStatus};
use valvehouse_json::Json;

/// The path of a model.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ModelPath {
    /// The name of the model.
    #[schemars(example = &"demo")]
    model: String,
}

/// The query of a chain.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ChainQuery {
    /// The user whose valves are returned as well.
    user: Option<String>,
    /// The toggle filters that the request selects, separated by commas.
    filter_ids: Option<String>,
}

/// The filters of a model.
#[derive(Serialize, JsonSchema)]
pub(super) struct Chain {
    model: String,
    /// The hooks with filters, in running order.
    stages: Vec<Stage>,
    /// All filters, whether they run or not.
    filters: Vec<ChainFilter>,
    /// Filters of the chain that are not plugins, such as middleware, in running order.
    host_filters: Vec<HostFilter>,
}

/// The filters that run at a hook, in running order.
#[derive(Serialize, JsonSchema)]
struct Stage {
    hook: &'static str,
    filters: Vec<String>,
}

/// A filter, and the reason why it runs or does not.
#[derive(Serialize, JsonSchema)]
struct ChainFilter {
    id: String,
    /// `runs`, `refuses`, or the reason why the filter does not run.
    decision: String,
    reason: String,
    priority: Option<f64>,
    hooks: Vec<&'static str>,
    state: &'static str,
    /// The effect of the filter on the prompt cache of providers in measured requests on this host; null if
    /// none was measured.
    prompt_cache: Option<PromptCache>,
    /// The values of the user's valves; null if no user was requested or the filter has no user valves.
    #[schemars(with = "Option<AnyObject>")]
    user_valves: Json,
}

/// The effect of a filter on the prompt cache of providers.
#[derive(Serialize, JsonSchema)]
struct PromptCache {
    keeps: bool,
    /// The number of measured requests that continued an earlier one.
    requests: u64,
    /// The number of these requests in which the filter changed the beginning that the earlier one had sent.
    lost: u64,
}

/// A part of the chain that is not a plugin.
#[derive(Serialize, JsonSchema)]
struct HostFilter {
    id: String,
    #[schemars(extend("enum" = ["runs", "refuses"]))]
    decision: &'static str,
    reason: String,
    priority: Option<f64>,
    hooks: Vec<&'static str>,
}

/// Handles `GET /api/v1/models/{id}/chain`.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(ModelPath { model }): Path<ModelPath>,
    Query(query): Query<ChainQuery>,
) -> Answer<Chain> {
    let snapshot = app.host.snapshot();
    let toggles: Vec<String> = query
        .filter_ids
        .iter()
        .flat_map(|ids| ids.split(','))
        .map(str::trim)
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect();
    // An unknown model would have an empty chain.
    snapshot.ready_for(&model, &toggles, &Json::Null)?;
    let user = query.user;
    let parts = snapshot.parts(&model, &toggles, Plugin::open_breaker);
    let own = snapshot.host_parts(&model, &toggles);
    Ok(Reply(Chain {
        stages: Hook::ALL.iter().filter_map(|hook| stage(*hook, &parts, &own)).collect(),
        filters: parts.iter().map(|part| filter(part, user.as_deref())).collect(),
        host_filters: own.iter().map(of_host).collect(),
        model,
    }))
}

/// Handles `GET /api/v1/coverage`: returns the guards that ran in the requests of the last hour, on all
/// hosts.
pub(super) async fn coverage(State(app): State<Arc<App>>) -> Answer<GuardCoverageTable> {
    let snapshot = app.host.snapshot();
    // The counts in memory are newer than those in the store.
    let own = app.traces.coverage().rows();
    let hosts = app.host.store().hosts().await?;
    let others: Vec<_> = hosts.into_iter().filter(|host| host.host_id != app.host.id()).collect();
    let others = SharedStatus::from_hosts(&others).coverage();
    let rows = GuardCoverageRow::merged(own.into_iter().chain(others));
    Ok(Reply(snapshot.coverage_table(rows)))
}

/// Returns the filters that run at a hook, in running order; `None` if there are none.
fn stage(hook: Hook, parts: &[Part], own: &[HostPart]) -> Option<Stage> {
    let place = |part: &Part| match part.decision {
        FilterDecision::Refuses(_) => f64::NEG_INFINITY,
        _ => part.plugin.priority().unwrap_or(0.0),
    };
    let of_plugins = parts.iter().filter(|part| acts(part, hook)).map(|part| (place(part), &*part.plugin.id));
    let of_host = own.iter().filter(|part| part.hooks.contains(&hook.name()));
    let mut acting: Vec<(f64, &str)> =
        of_plugins.chain(of_host.map(|part| (part.priority, part.id.as_str()))).collect();
    acting.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ids: Vec<&str> = acting.into_iter().map(|(_, id)| id).collect();
    ids.dedup();
    let filters: Vec<String> = ids.into_iter().map(str::to_owned).collect();
    (!filters.is_empty()).then(|| Stage { hook: hook.name(), filters })
}

fn acts(part: &Part, hook: Hook) -> bool {
    match part.decision {
        FilterDecision::Runs => part.plugin.hooks().contains(&hook.name()),
        // The rejection is the first filter that a request reaches.
        FilterDecision::Refuses(_) => hook == Hook::Inlet,
        _ => false,
    }
}

/// Returns a part of the chain that is not a plugin, such as middleware.
fn of_host(part: &HostPart) -> HostFilter {
    HostFilter {
        id: part.id.to_string(),
        decision: if part.refuses.is_some() { "refuses" } else { "runs" },
        reason: part.reason.to_string(),
        priority: Some(part.priority).filter(|priority| priority.is_finite()),
        hooks: part.hooks.to_vec(),
    }
}

fn filter(part: &Part, user: Option<&str>) -> ChainFilter {
    let plugin = &part.plugin;
    let PromptCacheCount { requests, lost } = plugin.prompt_cache();
    ChainFilter {
        id: plugin.id.to_string(),
        decision: part.decision_name().to_owned(),
        reason: part.reason.to_string(),
        priority: plugin.priority(),
        hooks: plugin.hooks(),
        state: if plugin.is_held() { "held" } else { plugin.state_name() },
        prompt_cache: (requests > 0).then_some(PromptCache { keeps: lost == 0, requests, lost }),
        user_valves: user.map_or(Json::Null, |user| plugin.valves_of_user(user)),
    }
}
