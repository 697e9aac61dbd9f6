//! The endpoint: one host, served over HTTP and over standard input and output.

use super::caller::Caller;
use super::handler::Handler;
use super::handler::SharedParts;
use super::sessions::StoredSessions;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use valvehouse_host::app::App;
use valvehouse_store::StoreError;

/// The header that names a session.
const SESSION: &str = "mcp-session-id";
/// The header that names the version of the protocol.
const VERSION: &str = "mcp-protocol-version";
/// The first version without sessions.
const STATELESS: &str = "2026-07-28";
/// The most sessions at once.
const MAX_SESSIONS: usize = 1_024;
/// The time without a message after which a session ends.
const IDLE: Duration = Duration::from_secs(3_600);
/// A message that changes nothing.
const NOTHING: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
/// Updates of resources that may wait for a slow listener.
const UPDATES: usize = 256;

/// The body of a request.
type RequestBody = UnsyncBoxBody<Bytes, String>;
/// The body of an answer.
pub(crate) type AnswerBody = BoxBody<Bytes, Infallible>;

/// The host as a server of MCP.
pub struct Endpoint {
    shared: Arc<SharedParts>,
    sessions: Arc<LocalSessionManager>,
    service: StreamableHttpService<Handler, LocalSessionManager>,
    /// The sessions as all hosts of the store know them.
    stored: Arc<StoredSessions>,
    /// The owners of sessions: nobody else may use them.
    owners: Mutex<HashMap<String, String>>,
    /// Held by the request that takes up a session of another host: a message before its greeting would end it.
    restoring: tokio::sync::Mutex<()>,
}

impl Endpoint {
    /// An endpoint of a host. Host, origin and key of a request are checked before it comes here.
    pub fn new(app: Arc<App>) -> Self {
        let server = &app.config.server;
        let megabytes = usize::try_from(server.max_body_mb).unwrap_or(usize::MAX);
        let ended = CancellationToken::new();
        let stored = Arc::new(StoredSessions::new(app.host.store().clone()));
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(megabytes.saturating_mul(1024 * 1024))
            .with_cancellation_token(ended.clone());
        config.session_store = Some(stored.clone());
        config.sse_keep_alive =
            (server.keep_alive_ms > 0).then(|| Duration::from_millis(server.keep_alive_ms));
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let sessions = Arc::new(sessions);
        let shared = Arc::new(SharedParts { app: app.clone(), updates: broadcast::channel(UPDATES).0 });
        let of_session = shared.clone();
        let service = StreamableHttpService::new(
            move || Ok(Handler::new(of_session.clone(), None)),
            sessions.clone(),
            config,
        );
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let stopped = app.stopped();
            runtime.spawn(async move {
                stopped.await;
                // Standing streams would keep a stopping host waiting.
                ended.cancel();
            });
        }
        Self {
            shared,
            sessions,
            service,
            stored,
            owners: Mutex::default(),
            restoring: tokio::sync::Mutex::default(),
        }
    }

    /// Answers one request of HTTP.
    pub fn answer<B>(&self, request: Request<B>, caller: Caller) -> BoxFuture<'_, Response<AnswerBody>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Display,
    {
        let request = request.map(|body| body.map_err(|error| error.to_string()).boxed_unsync());
        self.answer_boxed(request, caller)
    }

    // Boxed in a function without parameters of type, so that the library's service is compiled here and not in the
    // packages that serve it.
    fn answer_boxed(
        &self,
        request: Request<RequestBody>,
        caller: Caller,
    ) -> BoxFuture<'_, Response<AnswerBody>> {
        self.answer_request(request, caller).boxed()
    }

    async fn answer_request(
        &self,
        mut request: Request<RequestBody>,
        caller: Caller,
    ) -> Response<AnswerBody> {
        let session = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        match &session {
            Some(id) => match self.take_up(id, request.headers().get(VERSION).cloned(), &caller).await {
                Ok(true) => {}
                Ok(false) => {
                    return refused(
                        StatusCode::NOT_FOUND,
                        "cannot use this session: it ended, or belongs to another key; initialize a new one",
                    );
                }
                Err(error) => {
                    tracing::warn!("a session of another host cannot be looked for: {error}");
                    return refused(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "cannot look for this session: the store does not answer; try again in a moment",
                    );
                }
            },
            None if !is_stateless(&request) && self.sessions.sessions.read().await.len() >= MAX_SESSIONS => {
                return refused(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "cannot start a session: this host has too many; try again later, or use protocol version 2026-07-28",
                );
            }
            _ => {}
        }
        let owner = caller.owner.clone();
        request.extensions_mut().insert(caller);
        let response = self.service.handle(request).await;
        if let Some(id) =
            response.headers().get(SESSION).and_then(|id| id.to_str().ok()).filter(|_| session.is_none())
        {
            self.own(id, owner).await;
        }
        let is_json =
            response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if response.status().is_success() || is_json {
            return response.map(|body| body.boxed());
        }
        // Some refusals are plain text: every client reads JSON.
        let (parts, body) = response.into_parts();
        let Ok(text) = body.collect().await.map(|text| text.to_bytes());
        let mut said = refused(parts.status, &String::from_utf8_lossy(&text));
        if let Some(allowed) = parts.headers.get(header::ALLOW) {
            said.headers_mut().insert(header::ALLOW, allowed.clone());
        }
        said
    }

    /// Returns `true` if a session is here and belongs to this caller. One that the store knows is taken up.
    async fn take_up(
        &self,
        id: &str,
        version: Option<HeaderValue>,
        caller: &Caller,
    ) -> Result<bool, StoreError> {
        if let Some(is_owner) = self.is_owner(id, caller).await {
            return Ok(is_owner);
        }
        if self.stored.owner(id).await?.is_none_or(|owner| owner != caller.owner) {
            return Ok(false);
        }
        let _one_at_a_time = self.restoring.lock().await;
        if let Some(is_owner) = self.is_owner(id, caller).await {
            return Ok(is_owner);
        }
        self.owners.lock().remove(id);
        // The first message of any kind brings the session back; this one says nothing.
        let mut first =
            Request::new(Full::new(Bytes::from(NOTHING)).map_err(|never| match never {}).boxed_unsync());
        *first.method_mut() = Method::POST;
        let headers = first.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        // It came as one.
        headers.extend(HeaderValue::from_str(id).map(|id| (HeaderName::from_static(SESSION), id)));
        headers.extend(version.map(|version| (HeaderName::from_static(VERSION), version)));
        first.extensions_mut().insert(caller.clone());
        let response = self.service.handle(first).await;
        if response.status().is_success() {
            self.owners.lock().insert(id.to_owned(), caller.owner.clone());
            return Ok(true);
        }
        let Ok(why) = response.into_body().collect().await.map(|text| text.to_bytes());
        tracing::warn!("cannot go on with a session of another host: {}", String::from_utf8_lossy(&why));
        Ok(false)
    }

    /// Returns `true` if a session that is open here belongs to this caller; `None` if it is not open here.
    async fn is_owner(&self, id: &str, caller: &Caller) -> Option<bool> {
        if !self.sessions.sessions.read().await.contains_key(id) {
            return None;
        }
        self.owners.lock().get(id).map(|owner| *owner == caller.owner)
    }

    /// Notes whose a new session is, here and for other hosts, and forgets those that ended.
    async fn own(&self, id: &str, owner: String) {
        self.stored.own(id, &owner).await;
        let open = self.sessions.sessions.read().await;
        let mut owners = self.owners.lock();
        owners.retain(|id, _| open.contains_key(id.as_str()));
        owners.insert(id.to_owned(), owner);
    }

    /// Serves one client over standard input and output until it closes them.
    ///
    /// # Errors
    /// Returns an error if the client does not speak the protocol.
    pub fn serve_stdio(&self, caller: Caller) -> BoxFuture<'static, Result<(), String>> {
        let handler = Handler::new(self.shared.clone(), Some(caller));
        let served = async move {
            let running = handler
                .serve((tokio::io::stdin(), tokio::io::stdout()))
                .await
                .map_err(|error| format!("cannot start a session with the client: {error}"))?;
            running
                .waiting()
                .await
                .map(drop)
                .map_err(|error| format!("the client's connection failed: {error}"))
        };
        served.boxed()
    }
}

fn is_stateless<B>(request: &Request<B>) -> bool {
    let version = request.headers().get(VERSION).and_then(|version| version.to_str().ok());
    version.is_some_and(|version| version >= STATELESS)
}

/// A refusal as JSON-RPC has it.
fn refused(status: StatusCode, message: &str) -> Response<AnswerBody> {
    let error =
        serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": message } });
    let mut response = Response::new(Full::from(error.to_string()).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
