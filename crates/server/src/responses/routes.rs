//! The routes of the Responses API.

use super::conversations;
use super::handlers::{cancel, compact, create, delete, input_items, show};
use super::socket;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;
use valvehouse_host::app::App;

/// Returns the routes of the Responses API.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/responses", post(create).get(socket::open))
        .route("/v1/responses/compact", post(compact))
        .route("/v1/responses/{id}", get(show).delete(delete))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .route("/v1/responses/{id}/input_items", get(input_items))
        .route("/v1/conversations", post(conversations::create))
        .route(
            "/v1/conversations/{id}",
            get(conversations::show).post(conversations::update).delete(conversations::delete),
        )
        .route("/v1/conversations/{id}/items", get(conversations::list_items).post(conversations::add_items))
        .route(
            "/v1/conversations/{id}/items/{item}",
            get(conversations::show_item).delete(conversations::delete_item),
        )
}
