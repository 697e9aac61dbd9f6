//! `GET /v1/responses`: sequential responses over a WebSocket. Each message is handled as a request.

use super::counted_io::CountedIo;
use super::endpoint::{Local, warmed_up};
use crate::arrival::Arrival;
use crate::auth;
use crate::body::ReceivedBytes;
use crate::middleware::checks;
use crate::reply::{stopping, unlogged};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Utf8Bytes};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::access::{OpenSocket, SocketLimit};
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};

/// The maximum duration of a connection, as in OpenAI's API.
const LIMIT: Duration = Duration::from_secs(3600);
/// The time after which a silent connection is pinged, and after which it is closed.
const PULSE: Duration = Duration::from_secs(60);
/// The maximum number of requests that wait for the one in progress.
const MAX_WAITING: usize = 16;
/// The maximum size of an event, in bytes.
const MAX_EVENT: usize = 64 << 20;
/// The size of the two buffers of a connection, in bytes. Each connection has them while it is open.
const BUFFER: usize = 4 << 10;
/// The time after which a client with too many connections may try again.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The separator of the events in a stream.
pub(super) const BETWEEN: &[u8] = b"\n\n";

/// The headers of the handshake that are not copied to its requests.
const OF_HANDSHAKE: [HeaderName; 9] = [
    header::CONNECTION,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONTENT_ENCODING,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_EXTENSIONS,
    header::SEC_WEBSOCKET_PROTOCOL,
];

/// Answers a request as the listener does, including all middleware.
#[derive(Clone)]
pub(crate) struct Turns(pub(crate) Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>);

/// Returns `true` if a client requests a WebSocket of responses.
pub(crate) fn is_upgrade(request: &Request) -> bool {
    request.method() == Method::GET
        && request.headers().contains_key(header::SEC_WEBSOCKET_KEY)
        && request.uri().path().trim_end_matches('/').ends_with("/responses")
}

/// Opens the WebSocket for a valid handshake.
pub(super) async fn open(State(app): State<Arc<App>>, mut request: Request) -> Response {
    let turns = request.extensions().get::<Turns>().cloned();
    let key = key_of(&request);
    let (Some(turns), Some(key)) = (turns, key) else { return no_socket() };
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    if let Err(error) = auth::user_of_key(&app, &parts) {
        return unlogged(&error);
    }
    if app.is_stopping() {
        return stopping();
    }
    let open = match app.access.sockets.open(checks::asker(&app, &parts)) {
        Ok(open) => open,
        Err(limit) => return unlogged(&too_many(limit)),
    };
    tokio::spawn(async move {
        match upgrade.await {
            Ok(stream) => {
                let max_bytes = app.config.server.max_body_mb.saturating_mul(1024 * 1024);
                let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
                let config = WebSocketConfig::default()
                    .max_message_size(Some(max))
                    .max_frame_size(Some(max))
                    .read_buffer_size(BUFFER)
                    .write_buffer_size(BUFFER);
                let arrival = Arrival::new(Duration::from_millis(app.config.server.body_timeout_ms));
                let stream = CountedIo::new(TokioIo::new(stream), app.memory.clone(), max_bytes, arrival);
                let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
                let local = Local::new(app.memory.clone());
                let socket =
                    Socket { app, turns, parts, local, stream, waiting: VecDeque::new(), _open: open };
                socket.serve().await;
            }
            Err(error) => tracing::debug!("cannot open a WebSocket: {error}"),
        }
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Returns the key of a handshake that can be accepted.
fn key_of(request: &Request) -> Option<HeaderValue> {
    let headers = request.headers();
    let has = |name: &HeaderName, word: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let can = request.version() == Version::HTTP_11
        && has(&header::CONNECTION, "upgrade")
        && has(&header::UPGRADE, "websocket")
        && has(&header::SEC_WEBSOCKET_VERSION, "13");
    headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| can).cloned()
}

/// Returns 426, after which clients use server-sent events instead.
fn no_socket() -> Response {
    let error = Error::Request {
        message:
            "cannot open a WebSocket: the request is not a handshake of WebSocket 13 over HTTP/1.1; use POST"
                .into(),
        param: None,
        code: Some("websocket_unsupported"),
        kind: RequestErrorKind::Invalid,
    };
    let mut response = unlogged(&error);
    *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn too_many(limit: SocketLimit) -> Error {
    match limit {
        SocketLimit::Each(limit) => auth::too_often(
            &format!(
                "the client exceeded its limit of {limit} open WebSockets ([server] max_sockets_each); close one"
            ),
            "too_many_sockets",
            RETRY_AFTER,
        ),
        SocketLimit::All(limit) => Error::TooBusy {
            message: format!(
                "the clients exceeded the limit of {limit} open WebSockets ([server] max_sockets); use POST or try again later"
            ),
            wait: RETRY_AFTER,
        },
    }
}

/// An open connection.
struct Socket {
    app: Arc<App>,
    turns: Turns,
    /// The head of the handshake, whose key, client address and headers apply to every request.
    parts: Parts,
    local: Local,
    stream: WebSocketStream<CountedIo<TokioIo<hyper::upgrade::Upgraded>>>,
    /// The requests that arrived while another one was in progress.
    waiting: VecDeque<(Utf8Bytes, ReceivedBytes)>,
    _open: OpenSocket,
}

/// The end of a connection.
struct Disconnect;

impl Socket {
    async fn serve(mut self) {
        let until = Instant::now() + LIMIT;
        let stopped = self.app.stopped();
        tokio::pin!(stopped);
        let mut is_alive = true;
        loop {
            // The memory of the message counts until it is answered.
            let (request, _received) = match self.waiting.pop_front() {
                Some(waiting) => waiting,
                None => tokio::select! {
                    message = self.stream.next() => match message {
                        Some(Ok(Message::Text(text))) => (text, self.stream.get_mut().complete()),
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                            is_alive = true;
                            continue;
                        }
                        Some(Ok(Message::Binary(_))) => {
                            return self.close(CloseCode::Unsupported, "send requests as text").await;
                        }
                        Some(Err(SocketError::Io(error))) if error.kind() == io::ErrorKind::OutOfMemory => {
                            let _ = self.refuse(too_much(&error)).await;
                            return self.close(CloseCode::Again, "the host is too busy").await;
                        }
                        Some(Err(SocketError::Io(error))) if error.kind() == io::ErrorKind::TimedOut => {
                            return self.close(CloseCode::Policy, "the message arrived too slowly").await;
                        }
                        _ => return,
                    },
                    () = tokio::time::sleep(PULSE) => {
                        if !std::mem::replace(&mut is_alive, false) || self.write(ping()).await.is_err() {
                            return;
                        }
                        continue;
                    }
                    () = &mut stopped => {
                        return self.close(CloseCode::Away, "the host is stopping").await;
                    }
                    () = tokio::time::sleep_until(until) => {
                        let error = error("websocket_connection_limit_reached", "the connection exceeded its limit of 60 minutes; open a new one");
                        let _ = self.send(&envelope(400, &error)).await;
                        return self.close(CloseCode::Normal, "60 minutes").await;
                    }
                },
            };
            if self.answer(&request).await.is_err() {
                return;
            }
            is_alive = true;
        }
    }

    /// Answers one request with its events or an error.
    async fn answer(&mut self, text: &str) -> Result<(), Disconnect> {
        let body = match request_of(text) {
            Ok(body) => body,
            Err(message) => return self.send(&envelope(400, &error("invalid_request", message))).await,
        };
        let before = body.text("previous_response_id");
        let is_answered = self.turn(body).await?;
        if let Some(id) = before.filter(|_| !is_answered) {
            self.local.forget(&id);
        }
        Ok(())
    }

    /// Runs one request. Returns `true` if its response did not fail.
    async fn turn(&mut self, body: Json) -> Result<bool, Disconnect> {
        let is_warm_up = body.get("generate").is_some_and(|generate| generate.as_bool() == Some(false));
        let request = self.request(&body);
        if is_warm_up {
            let (parts, _) = request.into_parts();
            return match warmed_up(&self.app, &parts, &body).await {
                Ok(events) => {
                    for event in events {
                        self.send(&event).await?;
                    }
                    Ok(true)
                }
                Err(error) => self.refuse(unlogged(&error)).await.map(|()| false),
            };
        }
        let turns = self.turns.clone();
        let mut answering = (turns.0)(request);
        let response = loop {
            tokio::select! {
                response = &mut answering => break response,
                message = self.stream.next() => self.on_message(message).await?,
            }
        };
        if response.status() != StatusCode::OK {
            self.refuse(response).await?;
            return Ok(false);
        }
        let mut chunks = response.into_body().into_data_stream();
        let mut rest: Vec<u8> = Vec::new();
        let mut is_answered = true;
        loop {
            let chunk = tokio::select! {
                chunk = chunks.next() => chunk,
                message = self.stream.next() => {
                    self.on_message(message).await?;
                    continue;
                }
            };
            let Some(Ok(chunk)) = chunk else { break };
            let looked = rest.len().saturating_sub(1);
            rest.extend_from_slice(&chunk);
            let mut from = 0;
            let mut finder = memchr::memmem::find_iter(&rest[looked..], BETWEEN);
            let mut events = Vec::new();
            while let Some(at) = finder.next().map(|at| looked + at) {
                // A comment in the stream means that the model has not answered yet; it becomes a ping.
                events.push(data_of(&rest[from..at]));
                from = at + BETWEEN.len();
            }
            rest.drain(..from);
            for event in events {
                let failed = |event: &String| event.starts_with(r#"{"type":"response.failed""#);
                is_answered &= !event.as_ref().is_some_and(failed);
                self.write(event.map_or_else(ping, Message::text)).await?;
            }
            if rest.len() > MAX_EVENT {
                return Err(Disconnect);
            }
        }
        Ok(is_answered)
    }

    /// Creates the HTTP request for a message.
    fn request(&self, body: &Json) -> Request {
        let mut request = Request::new(Body::from(body.to_string()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.parts.uri.clone();
        *request.headers_mut() = headers_of(&self.parts.headers);
        let extensions = request.extensions_mut();
        extensions.extend(self.parts.extensions.clone());
        extensions.remove::<axum::extract::MatchedPath>();
        extensions.insert(self.local.clone());
        request
    }

    /// Handles a message of the client while a request is in progress.
    async fn on_message(&mut self, message: Option<Result<Message, SocketError>>) -> Result<(), Disconnect> {
        match message {
            Some(Ok(Message::Text(text))) if self.waiting.len() < MAX_WAITING => {
                let received = self.stream.get_mut().complete();
                self.waiting.push_back((text, received));
                Ok(())
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Text(_))) => {
                self.stream.get_mut().complete();
                let error = error("too_many_requests", "too many requests are waiting for the running one");
                self.send(&envelope(429, &error)).await
            }
            Some(Err(SocketError::Io(error))) if error.kind() == io::ErrorKind::OutOfMemory => {
                self.refuse(too_much(&error)).await?;
                Err(Disconnect)
            }
            // The turn ends when its client disconnects.
            _ => Err(Disconnect),
        }
    }

    /// Sends the error of a response.
    async fn refuse(&mut self, response: Response) -> Result<(), Disconnect> {
        let status = response.status().as_u16();
        let headers = self.shown(response.headers());
        let bytes = axum::body::to_bytes(response.into_body(), MAX_EVENT).await.ok();
        let body = bytes.and_then(|bytes| Json::parse(&bytes).ok());
        // An unreadable body is reported as a server error.
        let error = body.and_then(|body| body.get("error")).unwrap_or_else(Json::object);
        if error.text("code").is_none() {
            let kind = error.text("type").unwrap_or_else(|| "server_error".into());
            error.put("code", kind);
        }
        let event = envelope(status, &error);
        if !headers.is_empty() {
            event.put("headers", headers);
        }
        self.send(&event).await
    }

    /// Returns the headers of an error that clients of a WebSocket read in its event: the time of the next attempt, and
    /// those of the service.
    fn shown(&self, headers: &HeaderMap) -> Json {
        let is_shown = |name: &HeaderName| {
            *name == header::RETRY_AFTER || self.app.response_headers.contains(name.as_str())
        };
        let shown = headers.iter().filter(|(name, _)| is_shown(name));
        let shown =
            shown.filter_map(|(name, value)| Some((name.as_str().into(), value.to_str().ok()?.into())));
        shown.collect::<Object>().into()
    }

    async fn send(&mut self, event: &Json) -> Result<(), Disconnect> {
        self.write(Message::text(event.to_string())).await
    }

    async fn write(&mut self, message: Message) -> Result<(), Disconnect> {
        self.stream.send(message).await.map_err(|_| Disconnect)
    }

    async fn close(mut self, code: CloseCode, reason: &'static str) {
        let _ = self.stream.close(Some(CloseFrame { code, reason: reason.into() })).await;
    }
}

/// Returns the response for a message that exceeds the memory of the host.
fn too_much(error: &io::Error) -> Response {
    unlogged(&Error::TooBusy { message: error.to_string(), wait: RETRY_AFTER })
}

fn ping() -> Message {
    Message::Ping(bytes::Bytes::new())
}

/// Returns the request in a `response.create` message, with `stream: true`.
fn request_of(text: &str) -> Result<Json, &'static str> {
    let message = Json::parse(text.as_bytes()).map_err(|_| "the message is not valid JSON")?;
    if message.text("type").is_none_or(|kind| kind != "response.create") {
        return Err("unknown message: expected an object with `type: \"response.create\"`");
    }
    // Clients of the first version of this API nest the request in a field.
    let message = message.get("response").filter(|inner| inner.as_object().is_some()).unwrap_or(message);
    let fields = message.entries();
    let own = |key: &str| !matches!(key, "type" | "stream" | "stream_options" | "background");
    let fields = fields.into_iter().filter(|(key, _)| own(key)).collect::<Object>();
    let body = Json::from(fields);
    body.set("stream", true).map_err(|_| "cannot read the message")?;
    Ok(body)
}

fn headers_of(handshake: &HeaderMap) -> HeaderMap {
    let mut headers = handshake.clone();
    for name in OF_HANDSHAKE {
        headers.remove(name);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// Returns the data of an event; `None` for a comment.
pub(super) fn data_of(event: &[u8]) -> Option<String> {
    let lines = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    let lines: Vec<&[u8]> = lines.map(|line| line.strip_prefix(b" ").unwrap_or(line)).collect();
    if lines.is_empty() {
        return None;
    }
    String::from_utf8(lines.join(&b'\n')).ok()
}

fn error(code: &str, message: &str) -> Json {
    let fields = [
        ("type", "invalid_request_error".into()),
        ("code", code.into()),
        ("message", message.into()),
        ("param", Json::Null),
    ];
    Json::from_fields(fields)
}

fn envelope(status: u16, error: &Json) -> Json {
    Json::from([("type", "error".into()), ("status", i64::from(status).into()), ("error", error.clone())])
}
