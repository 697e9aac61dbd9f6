//! The routes of the Responses API.

use super::endpoint::{cancel, compact, create, delete, input_items, show};
use super::socket;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes of the Responses API.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/responses", post(create).get(socket::open))
        .route("/v1/responses/compact", post(compact))
        .route("/v1/responses/{id}", get(show).delete(delete))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .route("/v1/responses/{id}/input_items", get(input_items))
}
