//! The routes of the Functions API.

use super::{function, history, scripts, valves};
use axum::Router;
use axum::routing::{delete, get, post};
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes: behind the operators' key, but for what users set for themselves.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let operators = Router::new()
        .route("/api/v1/functions", get(function::list))
        .route("/api/v1/functions/", get(function::list))
        .route("/api/v1/functions/list", get(function::list))
        .route("/api/v1/functions/export", get(function::export))
        .route("/api/v1/functions/deleted", get(history::deleted))
        .route("/api/v1/functions/create", post(scripts::create))
        .route("/api/v1/functions/id/{id}", get(function::show))
        .route("/api/v1/functions/id/{id}/update", post(scripts::update))
        .route("/api/v1/functions/id/{id}/confirm", post(scripts::confirm))
        .route("/api/v1/functions/id/{id}/adopt", post(scripts::adopt))
        .route("/api/v1/functions/id/{id}/release", post(scripts::release))
        .route("/api/v1/functions/id/{id}/delete", delete(scripts::delete))
        .route("/api/v1/functions/id/{id}/toggle", post(scripts::toggle))
        .route("/api/v1/functions/id/{id}/toggle/global", post(scripts::toggle_global))
        .route("/api/v1/functions/id/{id}/valves", get(valves::stored))
        .route("/api/v1/functions/id/{id}/valves/spec", get(valves::spec))
        .route("/api/v1/functions/id/{id}/valves/effective", get(valves::effective))
        .route("/api/v1/functions/id/{id}/valves/update", post(valves::update))
        .route("/api/v1/functions/id/{id}/history", get(history::list))
        .route("/api/v1/functions/id/{id}/history/{version}", get(history::show))
        .route("/api/v1/functions/id/{id}/rollback", post(history::rollback))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), valves::operators));
    let users = Router::new()
        .route("/api/v1/functions/id/{id}/valves/user", get(valves::of_user))
        .route("/api/v1/functions/id/{id}/valves/user/spec", get(valves::user_spec))
        .route("/api/v1/functions/id/{id}/valves/user/update", post(valves::update_user));
    operators.merge(users)
}
