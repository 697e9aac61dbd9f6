//! The routes.

use super::azure;
use super::endpoint::{realtime, relay};
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes that are passed on, and those of Azure's clients.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/embeddings", post(relay))
        .route("/v1/completions", post(relay))
        .route("/v1/moderations", post(relay))
        .route("/v1/rerank", post(relay))
        .route("/v1/audio/{*rest}", post(relay))
        .route("/v1/images/{*rest}", post(relay))
        .route("/v1/files", get(relay).post(relay))
        .route("/v1/files/{*rest}", get(relay).post(relay).delete(relay))
        .route("/v1/batches", get(relay).post(relay))
        .route("/v1/batches/{*rest}", get(relay).post(relay))
        .route("/v1/messages/batches", get(relay).post(relay))
        .route("/v1/messages/batches/{*rest}", get(relay).post(relay).delete(relay))
        .route("/v1/realtime", get(realtime))
        .route("/v1/realtime/{*rest}", post(realtime))
        .route("/openai/deployments/{model}/{*rest}", post(azure::deployment))
}
