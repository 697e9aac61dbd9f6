//! The routes of traces.

use super::{dry_run, feed, list, replay};
use crate::auth;
use axum::Router;
use axum::routing::{get, post, put};
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes, behind the operators' key.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/traces", get(list::all))
        .route("/api/v1/traces/contents", get(list::contents))
        .route("/api/v1/traces/contents/{plugin}", put(list::keep_contents))
        .route("/api/v1/traces/{id}", get(list::one))
        .route("/api/v1/traces/{id}/replay", post(replay::replay))
        .route("/api/v1/try", post(dry_run::run))
        .route("/api/v1/events", get(feed::follow))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), auth::operators_only))
}
