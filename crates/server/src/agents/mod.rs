//! `/api/v1/agents`: runs are begun, looked at, followed and decided on; conversations are looked at,
//! branched off, carried elsewhere and forgotten. For operators; users decide on their own runs.

mod conversations;
mod events;
mod going;
mod own;
mod runs;

use super::auth;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes that users have for their own runs as well.
fn of_users(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/agents/runs/{run}/pending", get(runs::pending))
        .route("/api/v1/agents/runs/{run}/resume", post(going::resume))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), own::owners_and_operators))
}

/// The routes, behind the operators' key.
pub(super) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/agents", get(runs::agents))
        .route("/api/v1/agents/{agent}/runs", get(runs::list).post(going::begin))
        .route("/api/v1/agents/runs/{run}", get(runs::state))
        .route("/api/v1/agents/runs/{run}/events", get(events::follow))
        .route("/api/v1/agents/conversations", get(conversations::list))
        .route("/api/v1/agents/conversations/import", post(conversations::import))
        .route(
            "/api/v1/agents/conversations/{chat_id}",
            get(conversations::show).delete(conversations::forget),
        )
        .route("/api/v1/agents/conversations/{chat_id}/checkpoints", get(conversations::checkpoints))
        .route("/api/v1/agents/conversations/{chat_id}/export", get(conversations::export))
        .route("/api/v1/agents/checkpoints/{id}", get(conversations::checkpoint))
        .route("/api/v1/agents/checkpoints/{id}/fork", post(conversations::fork))
        .route("/api/v1/agents/prune", post(conversations::prune))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), auth::operators_only))
        .merge(of_users(app))
}
