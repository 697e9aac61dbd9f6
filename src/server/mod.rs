//! The doors. Each reads its own wire, runs the one turn, and writes its own wire back.

mod agents;
mod asked;
mod auth;
mod facts;
mod followed;
mod functions;
mod gate;
mod listen;
mod messages;
mod metrics;
mod openai;
mod openapi;
mod operations;
mod page;
mod pipelines;
mod problem;
mod ready;
mod reply;
mod session;
mod traces;
mod watched;

pub(crate) use reply::status as status_of;

use crate::app::App;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;
use tokio::net::TcpListener;

/// The generation that an answer comes from.
pub(crate) const GENERATION: HeaderName = HeaderName::from_static("x-valvehouse-generation");

/// All routes, without a socket.
pub fn router(app: Arc<App>) -> Router {
    let most =
        usize::try_from(app.config.server.max_body_mb.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX);
    Router::new()
        .route("/livez", get(operations::live))
        .route("/readyz", get(ready::ready))
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{*id}", get(openai::model))
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/messages", post(messages::messages))
        .route("/api/v1/questions/{id}", post(operations::answer))
        .merge(agents::routes(&app))
        .merge(functions::routes(&app))
        .merge(pipelines::routes(&app))
        .merge(traces::routes(&app))
        .merge(page::routes(&app))
        .merge(session::routes(&app))
        .merge(metrics::routes(&app))
        .merge(openapi::routes())
        .fallback(reply::not_found)
        .method_not_allowed_fallback(reply::wrong_method)
        .layer(DefaultBodyLimit::max(most))
        .layer(axum::middleware::from_fn_with_state(app.clone(), gate::gate))
        .layer(axum::middleware::from_fn_with_state(app.clone(), metrics::measured))
        .layer(axum::middleware::map_response_with_state(app.clone(), name_generation))
        .with_state(app)
}

/// Every answer names a generation: its turn's own, or the one that runs now.
async fn name_generation(
    axum::extract::State(app): axum::extract::State<Arc<App>>,
    mut response: Response,
) -> Response {
    if !response.headers().contains_key(&GENERATION) {
        let generation = HeaderValue::from(app.host.snapshot().generation);
        response.headers_mut().insert(GENERATION, generation);
    }
    response
}

/// Serves until `shutdown` comes; requests under way are finished. As long as there are any, new ones are told
/// to go elsewhere, and `/readyz` says so.
pub async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = router(app.clone());
    let until = async move {
        shutdown.await;
        app.stop().await;
    };
    listen::serve(listener, router, until).await
}
