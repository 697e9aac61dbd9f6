//! All routes, and the handling that they share: each request is counted, checked and passed on or rejected,
//! and its response names the generation.

use crate::access_log::Answering;
use crate::api::{Callers, Routes};
use crate::handler::{get, post};
use crate::headers::GENERATION;
use crate::listen::NewConnections;
use crate::messages::models::is_anthropic_client;
use crate::messages::rejection::AnthropicError;
use crate::metrics::endpoints::{OPERATIONS, endpoint_of};
use crate::ollama::rejection::OllamaError;
use crate::recording::followed;
use crate::reply::unlogged;
use crate::{
    actions, agents, functions, keys, listen, messages, metrics, middleware, ollama, openai, openapi,
    operations, page, passthrough, pipelines, responses, session, settings, traces, usage, users,
};
use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tower::ServiceExt as _;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;

/// The path of chats.
const CHAT: &str = "/v1/chat/completions";

/// Returns a router with all routes, for use without a listener. MCP servers and their routes are mounted
/// only by [`serve`].
pub fn router(app: Arc<App>) -> Router {
    let router = with(app, no_routes());
    // A path is rewritten before its route is found.
    Router::new().fallback_service(tower::service_fn(move |request| {
        router.clone().oneshot(passthrough::azure::under_v1(request))
    }))
}

fn no_routes() -> Routes {
    Routes::new("Page", Callers::Operators)
}

/// Creates a router with all routes and additional ones.
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

/// Returns the routes that are described by the types of their handlers.
fn typed_routes(app: &Arc<App>) -> Routes {
    passthrough::routes()
        .merge(agents::routes(app))
        .merge(functions::routes())
        .merge(pipelines::routes(app))
        .merge(traces::routes())
        .merge(page::routes())
        .merge(session::routes())
        .merge(operations::routes())
        .merge(settings::routes())
        .merge(users::routes())
        .merge(keys::routes())
        .merge(usage::routes())
        .merge(metrics::routes())
        .merge(openapi::routes())
}

/// Returns the routes of MCP, if it is built in and has anything to serve.
#[cfg(feature = "mcp")]
fn tools_routes(app: &Arc<App>) -> Router<Arc<App>> {
    crate::mcp::routes(app)
}

#[cfg(not(feature = "mcp"))]
fn tools_routes(_: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
}

/// Serves requests until `shutdown` completes with the treatment of new connections. Requests in progress are finished;
/// meanwhile new ones are rejected and `/readyz` reports that the host is stopping, or they are left to other processes.
///
/// # Errors
/// Returns an error if the listener fails.
pub async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = NewConnections> + Send + 'static,
) -> std::io::Result<()> {
    serve_until(listener, app, Box::pin(shutdown)).await
}

/// Serves as [`serve`] does. The function is neither generic nor `async`, so that it is compiled once in this
/// package and not in every program that calls it.
fn serve_until(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: BoxFuture<'static, NewConnections>,
) -> BoxFuture<'static, std::io::Result<()>> {
    #[cfg(feature = "mcp")]
    let (mounts, more) = {
        let mounts = valvehouse_mcp::Mounts::start(&app);
        let more = crate::mcp_servers::routes(valvehouse_mcp::Approvals::of(&mounts));
        (mounts, more)
    };
    #[cfg(not(feature = "mcp"))]
    let more = no_routes();
    let (router, serving) = (with(app.clone(), more), app.clone());
    let answer = move |request: Request| answer(serving.clone(), router.clone(), request);
    let stopping = app.clone();
    let until = async move {
        let connections = shutdown.await;
        if connections == NewConnections::Rejected {
            stopping.stop().await;
        }
        connections
    };
    let body_timeout = Duration::from_millis(app.config.server.body_timeout_ms);
    let finished = async move { app.stop().await };
    let served = listen::serve(listener, answer, (until, finished), body_timeout);
    #[cfg(feature = "mcp")]
    let served = async move {
        // MCP servers stay mounted while the host serves.
        let _mounts = mounts;
        served.await
    };
    Box::pin(served)
}

/// Answers a request. Chats bypass the router, which costs more than their own handling.
async fn answer(app: Arc<App>, router: Router, request: Request) -> Response {
    let request = passthrough::azure::under_v1(request);
    if request.method() == Method::POST && request.uri().path() == CHAT {
        let work = |request| openai::chat::chat(State(app.clone()), request);
        return pass(&app, openai::chat::DOOR, request, work).await;
    }
    let mut request = request;
    if responses::socket::is_upgrade(&request) {
        // Each message of a WebSocket is handled as a request.
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

/// Passes a request to the matched route.
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
    let mut answering = Answering::begin(app, endpoint, &request);
    let checked = async {
        match app.is_stopping() && endpoint != OPERATIONS {
            true => middleware::checks::refused_by_stopping(app, request),
            false => middleware::checks::run(app, request, work).await,
        }
    };
    let (mut response, runs_turn) = answering.scope().run(checked).await;
    let headers = response.headers_mut();
    // A turn names its own generation; other responses name the current one.
    if !headers.contains_key(&GENERATION) {
        headers.insert(GENERATION, HeaderValue::from(app.host.snapshot().generation));
    }
    answering.answers(response.status().as_u16());
    if runs_turn {
        answering.count_refusal(app, endpoint);
    }
    followed(response, answering)
}

/// Returns the error for an unknown route.
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

/// Returns the error for an unsupported method.
pub(crate) async fn wrong_method(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let error = Error::Request {
        message: format!("{} does not support {method}", uri.path()),
        param: None,
        code: Some("method_not_allowed"),
        kind: RequestErrorKind::Method,
    };
    in_protocol(&uri, &headers, error)
}

/// Returns an error in the format of the caller's protocol. Clients of Anthropic's API send its version or
/// use its route.
fn in_protocol(uri: &Uri, headers: &HeaderMap, error: Error) -> Response {
    if middleware::endpoint::is_ollama(uri.path()) {
        return OllamaError(error).into_response();
    }
    match uri.path().starts_with("/v1/messages") || is_anthropic_client(headers) {
        true => AnthropicError(error).into_response(),
        false => unlogged(&error),
    }
}
