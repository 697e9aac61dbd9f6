//! The endpoint: a host, served over HTTP, and over standard input and output.

use super::caller::Caller;
use super::handler::{Handler, SharedParts};
use super::interceptors::InterceptorBreakers;
use super::limits::MessageHead;
use super::open_sessions::{InUse, MAX_OF_OWNER, OpenSessions, Reservation, SessionLimit, SessionLookup};
use super::sessions::StoredSessions;
use super::stdio::{self, StdioClient};
use crate::error::McpError;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, BodyStream, Full, LengthLimitError, Limited, StreamBody};
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::SessionStore as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::convert::Infallible;
use std::fmt::Display;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;
use valvehouse_core::error::BoxError;
use valvehouse_host::app::App;
use valvehouse_store::StoreError;

/// Ends when the caller's key or access token becomes invalid.
pub type Lapse = BoxFuture<'static, ()>;

/// The header with the id of a session.
const SESSION: &str = "mcp-session-id";
/// The header with the protocol version.
const VERSION: &str = "mcp-protocol-version";
/// The first protocol version whose clients know events without data (SEP-1699).
const PRIMED: &str = "2025-11-25";
/// The media types of answers.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// The first protocol version without sessions.
const STATELESS: &str = "2026-07-28";
/// The time without messages after which a session ends.
const IDLE: Duration = Duration::from_secs(3_600);
/// A message without effect.
const NOTHING: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
/// The maximum number of updates buffered for a slow receiver.
const UPDATES: usize = 256;

/// The body of a request.
type RequestBody = UnsyncBoxBody<Bytes, String>;
/// The body of the library's response.
type LibraryBody = BoxBody<Bytes, Infallible>;
/// The body of a response.
pub(crate) type AnswerBody = BoxBody<Bytes, Infallible>;

/// The host as an MCP server.
pub struct Endpoint {
    shared: Arc<SharedParts>,
    sessions: Arc<OpenSessions>,
    service: StreamableHttpService<Handler, LocalSessionManager>,
    /// The sessions in the store, shared by all hosts.
    stored: Arc<StoredSessions>,
    /// The lock held while a session of another host is restored: a message before its initialization would
    /// end it.
    restoring: tokio::sync::Mutex<()>,
}

impl Endpoint {
    /// Creates the endpoint of a host. The caller checks the host, origin and key of each request.
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
        let shared = Arc::new(SharedParts {
            app: app.clone(),
            updates: broadcast::channel(UPDATES).0,
            breakers: InterceptorBreakers::new(app.config.breaker),
        });
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
                // Standing streams would delay the stop of the host.
                ended.cancel();
            });
        }
        Self {
            shared,
            sessions: Arc::new(OpenSessions::new(sessions)),
            service,
            stored,
            restoring: tokio::sync::Mutex::default(),
        }
    }

    /// Answers an HTTP request. A standing stream ends with `lapse`.
    pub fn answer<B>(
        &self,
        request: Request<B>,
        caller: Caller,
        lapse: Option<Lapse>,
    ) -> BoxFuture<'_, Response<AnswerBody>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Display,
    {
        let request = request.map(|body| body.map_err(|error| error.to_string()).boxed_unsync());
        self.answer_boxed(request, caller, lapse)
    }

    // Boxed in a function that is not generic, so that the library's service is compiled here and not in the
    // dependent packages.
    fn answer_boxed(
        &self,
        request: Request<RequestBody>,
        caller: Caller,
        lapse: Option<Lapse>,
    ) -> BoxFuture<'_, Response<AnswerBody>> {
        self.answer_request(request, caller, lapse).boxed()
    }

    async fn answer_request(
        &self,
        request: Request<RequestBody>,
        caller: Caller,
        lapse: Option<Lapse>,
    ) -> Response<AnswerBody> {
        let (mut request, head) = match self.read_head(request).await {
            Ok(read) => read,
            Err(rejection) => return rejection,
        };
        if accepts_streams(request.headers()) {
            request.headers_mut().insert(header::ACCEPT, BOTH);
        }
        let version = request.headers().get(VERSION).and_then(|version| version.to_str().ok());
        let is_primed = version.is_some_and(|version| version >= PRIMED);
        let is_standing =
            request.method() == Method::GET || head.as_ref().is_some_and(MessageHead::is_listen);
        let session = request.headers().get(SESSION).and_then(|id| id.to_str().ok());
        let in_use = match session {
            Some(id) => match self.take_up(id, request.headers().get(VERSION).cloned(), &caller).await {
                Ok(in_use) => Some(in_use),
                Err(rejection) => return rejection,
            },
            // An initialization starts a session, whatever version it names.
            None if head.as_ref().is_some_and(MessageHead::is_initialize) => {
                request.extensions_mut().insert(caller.clone());
                return self.begin(request, &caller.owner).await.map(unprimed);
            }
            None => None,
        };
        request.extensions_mut().insert(caller);
        let is_end = request.method() == Method::DELETE;
        let mut response = readable(self.service.handle(request).await, head.is_some()).await;
        if is_end && response.status().is_success() {
            // The official clients report any other status than 200 and 204 as a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        let is_stream =
            response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        match is_stream {
            true => {
                let response = if is_primed { response } else { response.map(unprimed) };
                response.map(|body| held(body, in_use, lapse.filter(|_| is_standing)))
            }
            false => response,
        }
    }

    /// Starts a session. It is counted even if the client does not wait for its id.
    async fn begin(&self, request: Request<RequestBody>, owner: &str) -> Response<AnswerBody> {
        let place = match self.reserve(owner).await {
            Ok(place) => place,
            Err(rejection) => return rejection,
        };
        let (service, stored, owner) = (self.service.clone(), self.stored.clone(), owner.to_owned());
        let beginning = tokio::spawn(async move {
            let response = service.handle(request).await;
            if let Some(id) = response.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
                place.begun(id);
                stored.own(id, &owner).await;
            }
            response
        });
        match beginning.await {
            Ok(response) => readable(response, true).await,
            Err(error) => {
                tracing::error!("cannot start a session of MCP: {error}");
                refused(StatusCode::INTERNAL_SERVER_ERROR, "cannot start a session: the host failed")
            }
        }
    }

    /// Reserves room for a session of this owner. A session ended for that is ended on all hosts.
    async fn reserve(&self, owner: &str) -> Result<Reservation, Response<AnswerBody>> {
        match self.sessions.reserve(owner).await {
            Ok(place) => {
                if let Some(id) = &place.ended
                    && let Err(error) = self.stored.delete(id).await
                {
                    tracing::warn!("an ended session remains in the store: {error}");
                }
                Ok(place)
            }
            Err(SessionLimit::Owner) => {
                let message = format!(
                    "cannot start a session: all {MAX_OF_OWNER} sessions of this key or user are in use; end one \
                     (DELETE /mcp), or use protocol version {STATELESS}"
                );
                Err(refused(StatusCode::TOO_MANY_REQUESTS, &message))
            }
            Err(SessionLimit::Host) => {
                let message = format!(
                    "cannot start a session: this host has too many; try again later, or use protocol version \
                     {STATELESS}"
                );
                Err(refused(StatusCode::SERVICE_UNAVAILABLE, &message))
            }
        }
    }

    /// Enters a session of this caller. A session of another host, or from before a restart, is restored.
    async fn take_up(
        &self,
        id: &str,
        version: Option<HeaderValue>,
        caller: &Caller,
    ) -> Result<InUse, Response<AnswerBody>> {
        match self.sessions.enter(id, &caller.owner).await {
            SessionLookup::Open(in_use) => return Ok(in_use),
            SessionLookup::Refused => return Err(unknown_session()),
            SessionLookup::Closed => {}
        }
        match self.stored.owner(id).await {
            Ok(Some(owner)) if owner == caller.owner => {}
            Ok(_) => return Err(unknown_session()),
            Err(error) => return Err(unavailable_store(&error)),
        }
        let _one_at_a_time = self.restoring.lock().await;
        match self.sessions.enter(id, &caller.owner).await {
            SessionLookup::Open(in_use) => return Ok(in_use),
            SessionLookup::Refused => return Err(unknown_session()),
            SessionLookup::Closed => {}
        }
        let place = self.reserve(&caller.owner).await?;
        let response = self.service.handle(first_message(id, version, caller)).await;
        if !response.status().is_success() {
            let Ok(why) = response.into_body().collect().await.map(|text| text.to_bytes());
            tracing::warn!("cannot continue a session of another host: {}", String::from_utf8_lossy(&why));
            return Err(unknown_session());
        }
        Ok(place.begun(id))
    }

    /// Reads the head of a message, and returns the request with its body.
    async fn read_head(
        &self,
        request: Request<RequestBody>,
    ) -> Result<(Request<RequestBody>, Option<MessageHead>), Response<AnswerBody>> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        // Bodies of other types are rejected without reading them.
        let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        let is_json = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
        if request.method() != Method::POST || !is_json {
            return Ok((request, None));
        }
        let max = self.service.config.max_request_body_bytes;
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, max).collect().await.map_err(|error| {
            match error.is::<LengthLimitError>() {
                true => {
                    let message = format!("the message exceeded its limit of {max} bytes");
                    refused(StatusCode::PAYLOAD_TOO_LARGE, &message)
                }
                false => refused(StatusCode::BAD_REQUEST, &format!("cannot read the message: {error}")),
            }
        })?;
        let body = body.to_bytes();
        let head = MessageHead::read(&body)
            .map_err(|(code, why)| error_response(StatusCode::BAD_REQUEST, code, &why))?;
        let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
        Ok((Request::from_parts(parts, body), Some(head)))
    }

    /// Serves one client over standard input and output until it closes them.
    ///
    /// # Errors
    /// Returns an error if the client does not speak the protocol.
    pub fn serve_stdio(&self, caller: Caller) -> BoxFuture<'static, Result<(), McpError>> {
        let handler = Handler::new(self.shared.clone(), Some(caller));
        let served = async move {
            let failed = |doing: &'static str, error: BoxError| McpError::Session { doing, error };
            let StdioClient { input, output, writing } =
                stdio::client(tokio::io::stdin(), tokio::io::stdout());
            let running = handler
                .serve((input, output))
                .await
                .map_err(|error| failed("cannot start a session with the client", error.into()))?;
            let ended = running.waiting().await;
            // The last responses are written after the client has closed its output.
            let written = writing.await;
            ended.map_err(|error| failed("the client's connection failed", error.into()))?;
            match written {
                Ok(written) => written.map_err(|error| failed("cannot write to the client", error.into())),
                Err(error) => Err(failed("cannot write to the client", error.into())),
            }
        };
        served.boxed()
    }
}

/// Returns a message without effect, which restores a stored session.
fn first_message(id: &str, version: Option<HeaderValue>, caller: &Caller) -> Request<RequestBody> {
    let mut first =
        Request::new(Full::new(Bytes::from(NOTHING)).map_err(|never| match never {}).boxed_unsync());
    *first.method_mut() = Method::POST;
    let headers = first.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, BOTH);
    // The id was read from a header, so it is a valid one.
    headers.extend(HeaderValue::from_str(id).map(|id| (HeaderName::from_static(SESSION), id)));
    headers.extend(version.map(|version| (HeaderName::from_static(VERSION), version)));
    first.extensions_mut().insert(caller.clone());
    first
}

fn unknown_session() -> Response<AnswerBody> {
    refused(
        StatusCode::NOT_FOUND,
        "cannot use this session: it ended, or belongs to another key; initialize a new one",
    )
}

fn unavailable_store(error: &StoreError) -> Response<AnswerBody> {
    tracing::warn!("cannot look up a session of another host: {error}");
    refused(
        StatusCode::SERVICE_UNAVAILABLE,
        "cannot look up this session: the store does not respond; try again in a moment",
    )
}

/// Converts a rejection in plain text to JSON, which every client can read.
async fn readable(response: Response<LibraryBody>, is_json_message: bool) -> Response<AnswerBody> {
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if response.status().is_success() || is_json {
        return response.map(|body| body.boxed());
    }
    let (parts, body) = response.into_parts();
    let Ok(text) = body.collect().await.map(|text| text.to_bytes());
    let text = String::from_utf8_lossy(&text);
    let mut rejection = match parts.status {
        // The content type is correct, but the message is not an MCP message or is nested too deeply.
        StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json_message => {
            error_response(StatusCode::BAD_REQUEST, -32_700, &format!("cannot read the message: {text}"))
        }
        status => refused(status, &text),
    };
    if let Some(allowed) = parts.headers.get(header::ALLOW) {
        rejection.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    rejection
}

/// Returns `true` if a client accepts streams: it names them, anything, or nothing.
fn accepts_streams(headers: &HeaderMap) -> bool {
    let mut accepted =
        headers.get_all(header::ACCEPT).iter().filter_map(|given| given.to_str().ok()).peekable();
    accepted.peek().is_none()
        || accepted.flat_map(|given| given.split(',')).any(|kind| {
            matches!(kind.split(';').next().map(str::trim), Some("*/*" | "text/*" | "text/event-stream"))
        })
}

/// Removes the first event of a stream if it has no data: older clients read its data as JSON.
fn unprimed(body: AnswerBody) -> AnswerBody {
    let is_priming = |frame: &Result<Frame<Bytes>, Infallible>| {
        let data = frame.as_ref().ok().and_then(Frame::data_ref);
        data.is_some_and(|data| [&b"data: \n"[..], b"data:\n"].iter().any(|begin| data.starts_with(begin)))
    };
    let frames = BodyStream::new(body).enumerate();
    let frames =
        frames.filter_map(move |(at, frame)| ready((at > 0 || !is_priming(&frame)).then_some(frame)));
    BodyExt::boxed(StreamBody::new(frames))
}

/// Wraps a stream so that its session stays in use, and it ends when the caller's key or token becomes invalid.
fn held(body: AnswerBody, in_use: Option<InUse>, lapse: Option<Lapse>) -> AnswerBody {
    let frames = BodyStream::new(body).map(move |frame| {
        let _held = &in_use;
        frame
    });
    let Some(lapse) = lapse else { return BodyExt::boxed(StreamBody::new(frames)) };
    let (mut counts, lapsed) = oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            () = lapse => tracing::debug!("a stream ended: its key or access token is no longer valid"),
            () = counts.closed() => {}
        }
    });
    BodyExt::boxed(StreamBody::new(frames.take_until(lapsed)))
}

/// Returns a rejection in the form of JSON-RPC.
fn refused(status: StatusCode, message: &str) -> Response<AnswerBody> {
    error_response(status, -32_000, message)
}

fn error_response(status: StatusCode, code: i32, message: &str) -> Response<AnswerBody> {
    let error =
        serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    let mut response = Response::new(Full::from(error.to_string()).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
