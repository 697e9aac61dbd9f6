//! `/api/v1/models/{id}/chain`: which filters the requests of a model go through, in which order, and why
//! the others do not run.

use crate::extract::Words;
use crate::reply::{self, OpenAiError, json_response};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::filter::Hook;
use valvehouse_core::trace::GuardCoverageRow;
use valvehouse_host::app::App;
use valvehouse_host::{FilterDecision, HostPart, Part, Plugin, SharedStatus};
use valvehouse_json::Json;

/// `GET /api/v1/models/{id}/chain?user=&filter_ids=`: the toggles that a request asks for are separated by commas.
pub(super) async fn show(State(app): State<Arc<App>>, Path(model): Path<String>, words: Words) -> Response {
    let snapshot = app.host.snapshot();
    let toggles: Vec<String> = words
        .text("filter_ids")
        .iter()
        .flat_map(|ids| ids.split(','))
        .map(str::trim)
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect();
    // A model nobody knows would get a fine chain, of nothing.
    if let Err(fault) = snapshot.ready_for(&model, &toggles) {
        return OpenAiError(fault).into_response();
    }
    let user = words.text("user");
    let parts = snapshot.parts(&model, &toggles, Plugin::open_breaker);
    let filters = parts.iter().map(|part| as_json(part, user.as_deref()));
    let own = snapshot.host_parts(&model, &toggles);
    let chain = Json::from([
        ("model", model.as_str().into()),
        ("stages", Hook::ALL.iter().filter_map(|hook| stage(*hook, &parts, &own)).collect::<Vec<_>>().into()),
        ("filters", filters.collect::<Vec<_>>().into()),
        ("host_filters", own.iter().map(of_host).collect::<Vec<_>>().into()),
    ]);
    json_response(StatusCode::OK, &chain)
}

/// `GET /api/v1/coverage`: the guards that ran in the requests of the last hour, on all hosts.
pub(super) async fn coverage(State(app): State<Arc<App>>) -> Response {
    let snapshot = app.host.snapshot();
    // What this host knows is newer than what it has stored.
    let own = app.traces.coverage().rows();
    let others = match app.host.store().hosts().await {
        Ok(hosts) => {
            let others: Vec<_> = hosts.into_iter().filter(|host| host.host_id != app.host.id()).collect();
            SharedStatus::told(&others).coverage()
        }
        Err(error) => return reply::refused(error.into()),
    };
    let rows = GuardCoverageRow::merged(own.into_iter().chain(others));
    json_response(StatusCode::OK, &snapshot.coverage_table(&rows))
}

/// Returns the filters that act at a hook, in running order; `None` if there are none.
fn stage(hook: Hook, parts: &[Part], own: &[HostPart]) -> Option<Json> {
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
    let ids: Vec<Json> = ids.into_iter().map(Json::from).collect();
    (!ids.is_empty()).then(|| Json::from([("hook", hook.name().into()), ("filters", ids.into())]))
}

fn acts(part: &Part, hook: Hook) -> bool {
    match part.decision {
        FilterDecision::Runs => part.plugin.hooks().contains(&hook.name()),
        // Requests come to the refusal first, and no further.
        FilterDecision::Refuses(_) => hook == Hook::Inlet,
        _ => false,
    }
}

/// Returns the JSON of a part of the chain that is not a plugin, such as middleware.
fn of_host(part: &HostPart) -> Json {
    let hooks = part.hooks.iter().map(|hook| Json::from(*hook)).collect::<Vec<_>>();
    Json::from([
        ("id", part.id.as_str().into()),
        ("decision", if part.refuses.is_some() { "refuses" } else { "runs" }.into()),
        ("reason", part.reason.as_str().into()),
        ("priority", Some(part.priority).filter(|priority| priority.is_finite()).into()),
        ("hooks", hooks.into()),
    ])
}

fn as_json(part: &Part, user: Option<&str>) -> Json {
    let plugin = &part.plugin;
    let hooks = plugin.hooks().into_iter().map(Json::from).collect::<Vec<_>>();
    let state = if plugin.is_held() { "held" } else { plugin.state_name() };
    Json::from([
        ("id", (*plugin.id).into()),
        ("decision", part.decision_name().into()),
        ("reason", part.reason.as_str().into()),
        ("priority", plugin.priority().into()),
        ("hooks", hooks.into()),
        ("state", state.into()),
        ("prompt_cache", plugin.prompt_cache().to_json()),
        ("user_valves", user.map_or(Json::Null, |user| plugin.valves_of_user(user))),
    ])
}
