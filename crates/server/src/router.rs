//! All routes, and what every request passes on its way to one: it is counted, let through or refused, and its answer
//! names the generation.
//!
//! Answers to requests that no route takes.

use crate::api::{Callers, Routes};
use crate::headers::GENERATION;
use crate::messages::models::speaks_anthropic;
use crate::messages::rejection::AnthropicError;
use crate::metrics::endpoints::{OPERATIONS, endpoint_of};
use crate::recording::followed;
use crate::reply::{self, OpenAiError};
use crate::{
    actions, agents, functions, listen, messages, metrics, middleware, ollama, openai, openapi, operations,
    page, passthrough, pipelines, responses, session, traces, users,
};
use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::net::TcpListener;
use tower::ServiceExt as _;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;

/// The path of chats.
const CHAT: &str = "/v1/chat/completions";
/// The number of headers that an answer gains on its way out and on the wire, so that they grow once.
const HEADERS: usize = 12;

/// All routes, without a socket. MCP servers are mounted by [`serve`] alone, which has the routes about them, too.
pub fn router(app: Arc<App>) -> Router {
    with(app, no_routes())
}

fn no_routes() -> Routes {
    Routes::new("Page", Callers::Operators)
}

/// All routes, and some more.
fn with(app: Arc<App>, more: Routes) -> Router {
    let most =
        usize::try_from(app.config.server.max_body_mb.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX);
    Router::new()
        .route("/v1/models", get(openai::models::models))
        .route("/v1/models/{*id}", get(openai::models::model))
        .route("/v1/chat/completions", post(openai::chat::chat))
        .route("/v1/messages", post(messages::endpoint::messages))
        .route("/v1/messages/count_tokens", post(messages::count::count_tokens))
        .route("/chat/completions", post(openai::chat::chat))
        .merge(responses::routes::routes())
        .merge(actions::routes())
        .merge(ollama::routes())
        .merge(tools_routes(&app))
        .merge(openapi::described(typed_routes(&app).merge(more)))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(most))
        .layer(axum::middleware::from_fn_with_state(app.clone(), enter))
        .with_state(app)
}

/// The routes that are described by the types of their handlers.
fn typed_routes(app: &Arc<App>) -> Routes {
    passthrough::routes()
        .merge(agents::routes(app))
        .merge(functions::routes(app))
        .merge(pipelines::routes(app))
        .merge(traces::routes(app))
        .merge(page::routes(app))
        .merge(session::routes())
        .merge(operations::routes())
        .merge(users::routes(app))
        .merge(metrics::routes(app))
        .merge(openapi::routes())
}

/// The endpoint of MCP, where it is built in and serves anything.
#[cfg(feature = "mcp")]
fn tools_routes(app: &Arc<App>) -> Router<Arc<App>> {
    crate::mcp::routes(app)
}

#[cfg(not(feature = "mcp"))]
fn tools_routes(_: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
}

/// Serves until `shutdown` comes; requests in progress are finished. As long as there are any, new ones are told
/// to go elsewhere, and `/readyz` says so.
pub async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_until(listener, app, Box::pin(shutdown)).await
}

/// Serves as [`serve`] does. Neither generic nor an `async fn`, so that the way of a request is compiled in this package,
/// once, and not in every program that serves.
fn serve_until(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, std::io::Result<()>> {
    #[cfg(feature = "mcp")]
    let (mounts, more) = {
        let mounts = valvehouse_mcp::Mounts::start(&app);
        let more = crate::mcp_servers::routes(&app, valvehouse_mcp::Approvals::of(&mounts));
        (mounts, more)
    };
    #[cfg(not(feature = "mcp"))]
    let more = no_routes();
    let (router, serving) = (with(app.clone(), more), app.clone());
    let answer = move |request: Request| answer(serving.clone(), router.clone(), request);
    let stopping = app.clone();
    let until = async move {
        shutdown.await;
        stopping.stop().await;
    };
    let served = listen::serve(listener, answer, until);
    #[cfg(feature = "mcp")]
    let served = async move {
        // Servers are mounted as long as it serves.
        let _mounts = mounts;
        served.await
    };
    Box::pin(served)
}

/// Chats bypass the router, whose work costs more than their own.
async fn answer(app: Arc<App>, router: Router, request: Request) -> Response {
    if request.method() == Method::POST && request.uri().path() == CHAT {
        let work = |request| openai::chat::chat(State(app.clone()), request);
        return pass(&app, openai::chat::DOOR, request, work).await;
    }
    let mut request = request;
    if responses::socket::is_asked(&request) {
        // Each message of a WebSocket goes the way of a request.
        let router = router.clone();
        let turns = move |request| -> BoxFuture<'static, Response> {
            Box::pin(
                router
                    .clone()
                    .oneshot(request)
                    .map(|answered| answered.unwrap_or_else(|never| match never {})),
            )
        };
        request.extensions_mut().insert(responses::socket::Turns(Arc::new(turns)));
    }
    router.oneshot(request).await.unwrap_or_else(|never| match never {})
}

/// On the way to a route of the router.
async fn enter(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let endpoint = endpoint_of(request.extensions().get::<MatchedPath>());
    pass(&app, endpoint, request, |request| next.run(request)).await
}

/// Passes a request to the handler of its endpoint. While the host stops, new requests are rejected.
async fn pass<F: Future<Output = Response>>(
    app: &Arc<App>,
    endpoint: &'static str,
    request: Request,
    work: impl FnOnce(Request) -> F,
) -> Response {
    let mut answering = app.endpoints.of(endpoint).begin();
    let mut response = match app.is_stopping() && endpoint != OPERATIONS {
        true => reply::stopping(),
        false => middleware::checks::run(app, request, work).await,
    };
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    // A turn's own, or the one that runs now.
    if !headers.contains_key(&GENERATION) {
        headers.insert(GENERATION, HeaderValue::from(app.host.snapshot().generation));
    }
    answering.answers(response.status().as_u16());
    followed(response, answering)
}

/// No such route.
pub(crate) async fn not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let hint = if path.starts_with("/v1/") { "; /openapi.json lists the routes" } else { "" };
    let error = Error::Request {
        message: format!("unknown route {method} {path}{hint}"),
        param: None,
        code: Some("not_found"),
        kind: RequestErrorKind::NotFound,
    };
    in_protocol(&uri, &headers, error)
}

/// A route that takes another method.
pub(crate) async fn wrong_method(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let error = Error::Request {
        message: format!("{} does not support {method}", uri.path()),
        param: None,
        code: Some("method_not_allowed"),
        kind: RequestErrorKind::Method,
    };
    in_protocol(&uri, &headers, error)
}

/// An error in the words of the protocol that its caller speaks: Anthropic's clients name its version, and ask
/// below its route.
fn in_protocol(uri: &Uri, headers: &HeaderMap, error: Error) -> Response {
    match uri.path().starts_with("/v1/messages") || speaks_anthropic(headers) {
        true => AnthropicError(error).into_response(),
        false => OpenAiError(error).into_response(),
    }
}
