//! The routes of a pipelines server.

use super::{files, hooks, list, valves};
use crate::{openai, operations};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes. Models and hooks are open to callers that may chat, everything else to operators.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let for_all = Router::new()
        .route("/models", get(list::models))
        .merge(everywhere("/filter/inlet", || post(hooks::inlet)))
        .merge(everywhere("/filter/outlet", || post(hooks::outlet)))
        .route_layer(from_fn_with_state(app.clone(), hooks::all));
    let for_operators = both("/pipelines", || get(list::pipelines))
        .merge(both("/pipelines/add", || post(files::add)))
        .merge(both("/pipelines/upload", || post(files::upload)))
        .merge(both("/pipelines/delete", || delete(files::delete)))
        .merge(both("/pipelines/reload", || post(list::reload)))
        .merge(both("/{id}/valves", || get(valves::valves)))
        .merge(both("/{id}/valves/spec", || get(valves::spec)))
        .merge(both("/{id}/valves/update", || post(valves::update)))
        .route_layer(from_fn_with_state(app.clone(), hooks::operators));
    Router::new()
        .route("/v1", get(operations::status))
        .route("/chat/completions", post(openai::chat::chat))
        .merge(for_all)
        .merge(for_operators)
}

type Method = axum::routing::MethodRouter<Arc<App>>;

/// A route with and without `/v1`.
fn both(path: &str, method: impl Fn() -> Method) -> Router<Arc<App>> {
    Router::new().route(path, method()).route(&format!("/v1{path}"), method())
}

/// The route of a filter or model. Open WebUI puts a model's name into the path as it is, and there are
/// models with slashes in their names.
fn everywhere(path: &str, method: impl Fn() -> Method) -> Router<Arc<App>> {
    ["/{id}", "/{id}/{of}", "/{id}/{of}/{all}"]
        .into_iter()
        .fold(Router::new(), |router, id| router.merge(both(&format!("{id}{path}"), &method)))
}
