//! The routes of a pipelines server.

use super::{files, hooks, list, valves};
use crate::api::{AnyObject, Callers, Operation, Routes, delete, get, post};
use crate::operations;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;
use valvehouse_host::access::OperatorRole::{Admin, Tune, Write};
use valvehouse_host::app::App;

/// Returns the routes. Models and hooks are for callers that may use models, all others for operators.
pub(crate) fn routes(app: &Arc<App>) -> Routes {
    let hook = |operation: Operation| {
        operation
            .takes::<hooks::HookCall>()
            .returns::<AnyObject>()
            .runs_turns()
            .result("The body after the filter.")
    };
    let for_all = routes_of(Callers::Users)
        .route("/models", get("Lists models and filters.", list::models))
        .merge(everywhere("/filter/inlet", || hook(post(Admin, "Runs the inlet of a filter.", hooks::inlet))))
        .merge(everywhere("/filter/outlet", || {
            hook(post(Admin, "Runs the outlet of a filter.", hooks::outlet))
        }))
        .map(|router| router.route_layer(from_fn_with_state(app.clone(), hooks::all)));
    let for_operators = both("/pipelines", || get("Lists all filters.", list::pipelines))
        .merge(both("/pipelines/add", || {
            post(Write, "Adds the script at a URL.", files::add).conflicts().unusable()
        }))
        .merge(both("/pipelines/upload", || {
            post(Write, "Adds an uploaded script.", files::upload).takes_file("file").conflicts().unusable()
        }))
        .merge(both("/pipelines/delete", || {
            delete(Write, "Deletes the file of a filter.", files::delete).fails(404).conflicts().unusable()
        }))
        .merge(both("/pipelines/reload", || post(Write, "Scans the files now.", list::reload)))
        .merge(both("/{id}/valves", || {
            get("Returns the effective values of a filter's valves with secrets masked.", valves::valves)
        }))
        .merge(both("/{id}/valves/spec", || get("Returns a filter's valves as JSON Schema.", valves::spec)))
        .merge(both("/{id}/valves/update", || {
            post(Tune, "Replaces all stored values of a filter's valves.", valves::update)
                .conflicts()
                .unusable()
        }))
        .map(|router| router.route_layer(from_fn_with_state(app.clone(), hooks::operators)));
    routes_of(Callers::Everyone)
        .route("/v1", get("Returns the status for Open WebUI.", operations::status))
        .merge(for_all)
        .merge(for_operators)
}

fn routes_of(callers: Callers) -> Routes {
    Routes::with_details("Pipelines", callers)
}

/// Adds a route with and without `/v1`.
fn both(path: &str, operation: impl Fn() -> Operation) -> Routes {
    routes_of(Callers::Users).route(path, operation()).route(&format!("/v1{path}"), operation())
}

/// Adds the route of a filter or model. Open WebUI does not encode a model's name in the path, so the name
/// may contain slashes.
fn everywhere(path: &str, operation: impl Fn() -> Operation) -> Routes {
    ["/{id}", "/{id}/{of}", "/{id}/{of}/{all}"]
        .into_iter()
        .fold(routes_of(Callers::Users), |routes, id| routes.merge(both(&format!("{id}{path}"), &operation)))
}
