//! The doors. Each reads its own wire, runs the one turn, and writes its own wire back.

mod address;
mod agents;
mod auth;
mod body;
mod entrance;
mod extract;
mod facts;
mod fallback;
mod followed;
mod functions;
mod gate;
mod headers;
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

pub use reply::status as status_of;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::Method;
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;
use tokio::net::TcpListener;
use tower::ServiceExt as _;
use valvehouse_host::app::App;

/// Where chats are asked for.
const CHAT: &str = "/v1/chat/completions";

/// All routes, without a socket.
pub fn router(app: Arc<App>) -> Router {
    let most =
        usize::try_from(app.config.server.max_body_mb.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX);
    Router::new()
        .route("/livez", get(operations::live))
        .route("/readyz", get(ready::ready))
        .route("/v1/models", get(openai::models::models))
        .route("/v1/models/{*id}", get(openai::models::model))
        .route("/v1/chat/completions", post(openai::chat::chat))
        .route("/v1/messages", post(messages::turn::messages))
        .route("/api/v1/questions/{id}", post(operations::answer))
        .merge(agents::routes(&app))
        .merge(functions::routes(&app))
        .merge(pipelines::routes(&app))
        .merge(traces::routes(&app))
        .merge(page::routes(&app))
        .merge(session::routes(&app))
        .merge(metrics::routes(&app))
        .merge(openapi::routes())
        .fallback(fallback::not_found)
        .method_not_allowed_fallback(fallback::wrong_method)
        .layer(DefaultBodyLimit::max(most))
        .layer(axum::middleware::from_fn_with_state(app.clone(), entrance::enter))
        .with_state(app)
}

/// Serves until `shutdown` comes; requests under way are finished. As long as there are any, new ones are told
/// to go elsewhere, and `/readyz` says so.
pub async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (router, serving) = (router(app.clone()), app.clone());
    let answer = move |request: Request| answer(serving.clone(), router.clone(), request);
    let until = async move {
        shutdown.await;
        app.stop().await;
    };
    listen::serve(listener, answer, until).await
}

/// Chats go straight to their door: what the router does on the way costs more than theirs.
async fn answer(app: Arc<App>, router: Router, request: Request) -> Response {
    if request.method() == Method::POST && request.uri().path() == CHAT {
        let work = |request| openai::chat::chat(State(app.clone()), request);
        return entrance::pass(&app, openai::chat::DOOR, request, work).await;
    }
    router.oneshot(request).await.unwrap_or_else(|never| match never {})
}
