//! The routes of the Responses API.

use super::conversations;
use super::handlers::{self, cancel, compact, create, input_items, input_tokens, show};
use super::socket;
use crate::handler::{delete, get, post};
use axum::Router;
use std::sync::Arc;
use valvehouse_host::app::App;

/// Returns the routes of the Responses API.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/responses", post(create).merge(get(socket::open)))
        .route("/v1/responses/compact", post(compact))
        .route("/v1/responses/input_tokens", post(input_tokens))
        .route("/v1/responses/{id}", get(show).merge(delete(handlers::delete)))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .route("/v1/responses/{id}/input_items", get(input_items))
        .route("/v1/conversations", post(conversations::create))
        .route(
            "/v1/conversations/{id}",
            get(conversations::show).merge(post(conversations::update)).merge(delete(conversations::delete)),
        )
        .route(
            "/v1/conversations/{id}/items",
            get(conversations::list_items).merge(post(conversations::add_items)),
        )
        .route(
            "/v1/conversations/{id}/items/{item}",
            get(conversations::show_item).merge(delete(conversations::delete_item)),
        )
}
