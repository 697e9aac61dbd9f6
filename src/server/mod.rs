//! The doors. Each reads its own wire, runs the one turn, and writes its own wire back.

mod agents;
mod auth;
mod facts;
mod messages;
mod openai;
mod operations;
mod reply;

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
    Router::new()
        .route("/", get(operations::status))
        .route("/livez", get(operations::live))
        .route("/readyz", get(operations::ready))
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{*id}", get(openai::model))
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/messages", post(messages::messages))
        .route("/api/v1/questions/{id}", post(operations::answer))
        .merge(agents::routes(&app))
        .fallback(reply::not_found)
        .method_not_allowed_fallback(reply::wrong_method)
        .layer(DefaultBodyLimit::disable())
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

/// Serves until `shutdown` comes; requests under way are finished.
pub async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let service = router(app).into_make_service_with_connect_info::<std::net::SocketAddr>();
    // Answers are written as they come: none waits for a fuller packet.
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, service).with_graceful_shutdown(shutdown).await
}
