//! A model's service on loopback that answers as a test scripts it, and records its requests.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

/// The model it lists, and that tests ask for.
pub const MODEL: &str = "mock-1";

/// The request, as it came.
#[derive(Debug, Clone)]
pub struct UpstreamRequest {
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl UpstreamRequest {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The text of the last message.
    pub fn last_text(&self) -> String {
        let body = self.json();
        let last = body["messages"].as_array().and_then(|messages| messages.last());
        last.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
    }
}

/// One answer.
#[derive(Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    before: Vec<Part>,
    body: Vec<Part>,
}

#[derive(Clone)]
enum Part {
    Bytes(Bytes),
    ForEver(&'static str),
    Pause(Duration),
    Gate(Gate),
    Cut,
}

/// Holds an answer back until the test opens it.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    pub fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub fn open(&self) {
        self.0.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

impl Reply {
    /// A body just so.
    pub fn raw(content_type: &str, body: impl Into<String>) -> Self {
        Self::bytes(content_type, body.into())
    }

    /// The same of any bytes.
    pub fn bytes(content_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status: 200, headers, before: Vec::new(), body: vec![Part::Bytes(body.into())] }
    }

    /// The same body in pieces of so many bytes.
    pub fn in_pieces_of(mut self, size: usize) -> Self {
        let cut = |part: Part| match part {
            Part::Bytes(bytes) => {
                bytes.chunks(size).map(|piece| Part::Bytes(Bytes::copy_from_slice(piece))).collect()
            }
            other => vec![other],
        };
        self.body = self.body.into_iter().flat_map(cut).collect();
        self
    }

    /// And this repeatedly, as long as the answer is read.
    pub fn then_for_ever(mut self, more: &'static str) -> Self {
        self.body.push(Part::ForEver(more));
        self
    }

    pub fn json(body: &Value) -> Self {
        Self::raw("application/json", body.to_string())
    }

    /// A whole completion with this text.
    pub fn text(text: &str) -> Self {
        Self::json(&json!({
            "id": "chatcmpl-mock", "object": "chat.completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }))
    }

    /// A stream that says these words and ends well.
    pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut reply = Self::begun(words);
        reply.body.push(Part::Bytes(chunk(&json!({}), Some("stop")).into()));
        reply.body.push(Part::Bytes("data: [DONE]\n\n".into()));
        reply
    }

    /// A stream that says these words and nothing more.
    pub fn begun<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut reply =
            Self::raw("text/event-stream", chunk(&json!({"role": "assistant", "content": ""}), None));
        let words = words.into_iter().map(|word| Part::Bytes(chunk(&json!({"content": word}), None).into()));
        reply.body.extend(words);
        reply
    }

    /// Whole or streamed, as it was requested.
    pub fn fitting(request: &UpstreamRequest, text: &str) -> Self {
        if request.json()["stream"] == json!(true) {
            Self::words(text.split_inclusive(' '))
        } else {
            Self::text(text)
        }
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Says nothing at all, not even a status, for so long.
    pub fn after(mut self, delay: Duration) -> Self {
        self.before.push(Part::Pause(delay));
        self
    }

    /// Says nothing at all before the gate opens.
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.before.push(Part::Gate(gate.clone()));
        self
    }

    /// And then this.
    pub fn then(mut self, more: impl Into<String>) -> Self {
        self.body.push(Part::Bytes(more.into().into()));
        self
    }

    /// The same of any bytes.
    pub fn then_bytes(mut self, more: Bytes) -> Self {
        self.body.push(Part::Bytes(more));
        self
    }

    /// And then nothing for so long.
    pub fn then_pause(mut self, pause: Duration) -> Self {
        self.body.push(Part::Pause(pause));
        self
    }

    /// And then nothing before the gate opens.
    pub fn then_gate(mut self, gate: &Gate) -> Self {
        self.body.push(Part::Gate(gate.clone()));
        self
    }

    /// And then the connection breaks.
    pub fn then_cut(mut self) -> Self {
        self.body.push(Part::Cut);
        self
    }
}

/// One event of a stream.
pub fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let event = json!({
        "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    });
    format!("data: {event}\n\n")
}

type Script = Arc<dyn Fn(&UpstreamRequest) -> Reply + Send + Sync>;

/// The service.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    port: u16,
    script: Mutex<Script>,
    requests: Mutex<Vec<UpstreamRequest>>,
    /// The number of callers that went away before they had their whole answer.
    deserted: watch::Sender<usize>,
    server: Mutex<Option<AbortHandle>>,
}

impl Upstream {
    /// Starts on a free port; answers `hello from upstream` by default.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let script: Script = Arc::new(|request| Reply::fitting(request, "hello from upstream"));
        let inner = Inner {
            port,
            script: Mutex::new(script),
            requests: Mutex::default(),
            deserted: watch::channel(0).0,
            server: Mutex::default(),
        };
        let upstream = Self(Arc::new(inner));
        let router = Router::new().fallback(answer).with_state(upstream.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        *upstream.0.server.lock().unwrap() = Some(server.abort_handle());
        upstream
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.0.port)
    }

    /// Answers this from now on.
    pub fn reply(&self, reply: Reply) {
        self.script(move |_| reply.clone());
    }

    /// Answers what this makes of the question.
    pub fn script(&self, script: impl Fn(&UpstreamRequest) -> Reply + Send + Sync + 'static) {
        *self.0.script.lock().unwrap() = Arc::new(script);
    }

    /// The requests it received.
    pub fn requests(&self) -> Vec<UpstreamRequest> {
        self.0.requests.lock().unwrap().clone()
    }

    pub fn last(&self) -> UpstreamRequest {
        self.requests().pop().expect("the upstream received a request")
    }

    /// Waits until it received so many requests.
    pub async fn wait_for_requests(&self, times: usize) {
        crate::wait::until("the upstream has its requests", || async { self.requests().len() >= times })
            .await;
    }

    /// Waits until so many callers have gone away early.
    pub async fn was_deserted(&self, times: usize) {
        let mut deserted = self.0.deserted.subscribe();
        let wait = deserted.wait_for(|count| *count >= times);
        tokio::time::timeout(crate::wait::TIMEOUT / crate::slowness(), wait)
            .await
            .expect("the upstream's caller should be gone")
            .expect("the upstream runs");
    }

    /// Closes its port.
    pub fn stop(&self) {
        if let Some(server) = self.0.server.lock().unwrap().take() {
            server.abort();
        }
    }
}

/// Counts a caller that goes away before it has its answer.
struct Caller {
    served: bool,
    upstream: Upstream,
}

impl Caller {
    /// The end of the body is the last it gets: then it has everything.
    fn is_given(&mut self, part: Option<&Part>) {
        self.served |= matches!(part, None | Some(Part::Cut));
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if !self.served {
            self.upstream.0.deserted.send_modify(|count| *count += 1);
        }
    }
}

async fn answer(State(upstream): State<Upstream>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    if path.ends_with("/models") {
        let list = json!({"object": "list", "data": [
            {"id": MODEL, "object": "model", "created": 7, "owned_by": "mock", "context_window": 8192},
        ]});
        return Response::new(Body::from(list.to_string()));
    }
    let query = parts.uri.query().map(str::to_owned);
    let received_request = UpstreamRequest { path, query, headers: parts.headers, body };
    upstream.0.requests.lock().unwrap().push(received_request.clone());
    let script = upstream.0.script.lock().unwrap().clone();
    let reply = script(&received_request);
    let mut caller = Caller { served: false, upstream };
    for part in &reply.before {
        // Only waiting stands before an answer.
        let _ = play(part).await;
    }
    let again = |part| -> Box<dyn Iterator<Item = Part> + Send> {
        let Part::ForEver(text) = part else { return Box::new(std::iter::once(part)) };
        let round = [Part::Bytes(Bytes::from_static(text.as_bytes())), Part::Pause(Duration::from_millis(5))];
        Box::new(round.into_iter().cycle())
    };
    let parts = reply.body.into_iter().flat_map(again).map(Some).chain([None]);
    let body = stream::iter(parts).filter_map(move |part| {
        caller.is_given(part.as_ref());
        async move { play(&part?).await }
    });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = StatusCode::from_u16(reply.status).expect("a test's status is one");
    for (name, value) in reply.headers {
        let value = HeaderValue::from_str(&value).expect("a test's header is one");
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}

async fn play(part: &Part) -> Option<Result<Bytes, std::io::Error>> {
    match part {
        Part::Bytes(bytes) => return Some(Ok(bytes.clone())),
        Part::ForEver(_) => {}
        Part::Pause(pause) => tokio::time::sleep(*pause).await,
        Part::Gate(gate) => drop(gate.0.acquire().await),
        Part::Cut => {
            // The parts before have to be on their way, or they would be lost with the connection.
            tokio::time::sleep(Duration::from_millis(20)).await;
            return Some(Err(std::io::Error::other("cut by the test")));
        }
    }
    None
}
