//! The trace of a request, from the choice of its model to the last byte of the response, and the followers
//! of responses.

use crate::body::counted;
use crate::credentials::issued;
use crate::headers::{TRACE, TRACEPARENT};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use futures::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use valvehouse_core::context::{Afterwards, HeldMemory, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::trace::{Counting, RequestFacts, RequestScope, Trace, TraceGuard};
use valvehouse_host::access::IssuedKey;
use valvehouse_host::app::App;

/// The maximum time for which an answer waits for the count of its use.
const MAX_WRITE: Duration = Duration::from_secs(2);

/// Starts the trace of a request at an endpoint.
pub(super) fn begin(
    app: &Arc<App>,
    endpoint: &'static str,
    stream: bool,
    generation: u64,
    parts: &Parts,
    facts: &mut TurnFacts,
) -> TraceGuard {
    let headers = &parts.headers;
    let mut recording = recorded(app, endpoint, stream, generation, wants_contents(headers), facts);
    let counting = counting(app, parts);
    counting.begin(&mut recording);
    if let Some(exchange) = &facts.exchange {
        exchange.count_by(counting);
    }
    if let Some(parent) = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()) {
        recording.trace().belongs_to(parent);
    }
    recording
}

/// Starts a trace that records all values if `everything` is set.
pub(super) fn recorded(
    app: &Arc<App>,
    endpoint: &'static str,
    stream: bool,
    generation: u64,
    everything: bool,
    facts: &mut TurnFacts,
) -> TraceGuard {
    let text = |json: &valvehouse_json::Json| json.string("id");
    let trace_facts = RequestFacts {
        endpoint,
        model: text(&facts.model),
        stream,
        user: text(&facts.user),
        chat_id: facts.chat_id.clone(),
        generation,
    };
    let mut recording = app.traces.begin(trace_facts, everything);
    if let Some(exchange) = &facts.exchange {
        exchange.count_in(recording.trace());
    }
    facts.trace = Some(recording.trace().clone());
    facts.afterwards = Some(recording.afterwards());
    recording
}

/// Returns the count of a request and of its work: in the usage, and in the sums of its key.
pub(super) fn counting(app: &Arc<App>, parts: &Parts) -> Counting {
    let (app, key) = (app.clone(), issued(app, parts));
    Counting::new(move |recording| counted_at_end(&app, key.clone(), recording))
}

fn counted_at_end(app: &Arc<App>, key: Option<Arc<IssuedKey>>, recording: &mut TraceGuard) {
    if let Some((key, at)) = key.as_ref().and_then(|key| Some((key, key.use_to_record()?))) {
        let (app, name) = (app.clone(), key.name.clone());
        tokio::spawn(async move {
            if let Err(error) = app.host.store().record_key_use(&name, at).await {
                tracing::debug!("cannot record the use of the key {name}: {error}");
            }
        });
    }
    if let Some(key) = &key {
        recording.trace().set_key(&key.name);
    }
    if let Some(key) = key.clone().filter(|key| key.is_metered()) {
        let (app, counted) = (app.clone(), Mutex::new([0; 3]));
        recording.meter(move |trace| charge(&app, &key, trace, &counted));
    }
    let app = app.clone();
    recording.at_end(move |trace| {
        let snapshot = app.host.snapshot();
        let is_configured = snapshot.plan().model(&trace.request.model).is_some();
        app.usage.count(trace, key.as_ref().map_or("", |key| &key.name), is_configured);
        // Nobody waits for the sums of a key that has no limits.
        if let Some(key) = key.filter(|key| !key.is_metered()) {
            key.charge(trace.tokens(), trace.cost(), app.host.kv());
        }
    });
}

/// Adds what a request has used since the last call to the sums of its key. Returns the write of the sums, which ends
/// with the first attempt: an outage of the store delays answers, and does not refuse them.
fn charge(
    app: &Arc<App>,
    key: &IssuedKey,
    trace: &Trace,
    counted: &Mutex<[u64; 3]>,
) -> Option<BoxFuture<'static, ()>> {
    let used = {
        let [prompt, completion] = trace.tokens();
        let all = [prompt, completion, trace.cost()];
        let before = std::mem::replace(&mut *counted.lock(), all);
        [0, 1, 2].map(|kind| all[kind].saturating_sub(before[kind]))
    };
    let [prompt, completion, cost] = used;
    if [prompt, completion] == [0, 0] {
        return None;
    }
    let (app, write) = (app.clone(), key.charge([prompt, completion], cost, app.host.kv())?);
    Some(Box::pin(async move {
        let written = tokio::time::timeout(MAX_WRITE, app.host.kv().flush_up_to(write)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!("cannot store the use of a key, retrying: {error}");
        }
    }))
}

fn wants_contents(headers: &HeaderMap) -> bool {
    headers.get(TRACE).is_some_and(|value| value == "content")
}

/// Ends a trace with the response or the error of its request.
pub(super) fn ended(
    recording: TraceGuard,
    answered: Result<Response, Error>,
    refused: impl FnOnce(Error) -> Response,
) -> Response {
    let response = answered.unwrap_or_else(|error| refused(recording.failed(error)));
    until_end(recording, response)
}

/// Ends a trace when the response ends.
pub(super) fn until_end(mut recording: TraceGuard, mut response: Response) -> Response {
    recording.answered(response.status().as_u16());
    if let Ok(id) = HeaderValue::from_str(&recording.trace().id) {
        response.headers_mut().insert(TRACE, id);
    }
    if response.body().size_hint().exact().is_none() {
        return followed(response, recording);
    }
    let (written, afterwards) = (recording.count(), recording.leaves_work().then(|| recording.afterwards()));
    recording.done();
    let response = match written {
        Some(written) => response.map(|body| {
            Body::new(FollowedBody::<Afterwards> { written: Some(written), ..FollowedBody::of(body) })
        }),
        None => response,
    };
    // The trace of a complete response ends at once. Scheduled tasks start when the response has been sent.
    match afterwards {
        Some(afterwards) => followed_to_the_wire(response, afterwards),
        None => response,
    }
}

/// Returns the response. If it is complete, the memory of its request counts until the client has received it; a
/// streamed response holds its turn, and with it the memory.
pub(super) async fn held_until_sent(response: Response, memory: &Arc<HeldMemory>) -> Response {
    if memory.is_empty() || response.body().size_hint().exact().is_none() {
        return response;
    }
    let (parts, body) = response.into_parts();
    // A complete body is one part, which is not copied and cannot fail.
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_else(|error| {
        tracing::error!("cannot send a response: {error}");
        Bytes::new()
    });
    Response::from_parts(parts, Body::from(counted(bytes, memory.clone())))
}

impl Follower for TraceGuard {
    fn count(&self) -> Option<BoxFuture<'static, ()>> {
        Self::count(self)
    }

    fn done(self) {
        Self::done(self);
    }
}

/// The memory is released when the last clone is dropped.
impl Follower for Arc<HeldMemory> {
    fn done(self) {}
}

/// Scheduled tasks start when the last clone is dropped.
impl Follower for Afterwards {
    fn done(self) {}
}

/// Follows a response while it is sent. A follower that is dropped before the end records that the client
/// disconnected.
pub(super) trait Follower: Send + Unpin + 'static {
    /// Returns the scope in which the response is sent, if the follower has one.
    fn scope(&self) -> Option<RequestScope> {
        None
    }
    /// Records that the response is streamed.
    fn streams(&mut self) {}
    /// Records that a part of the response was sent.
    fn sends(&mut self) {}
    /// Counts what the request has used. Returns the write that must end before the client receives more.
    fn count(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
    /// Records the end of the response.
    fn done(self);
}

/// Returns the response with a follower. If the body is already complete, the follower is done at once.
pub(super) fn followed(response: Response, mut follower: impl Follower) -> Response {
    if response.body().size_hint().exact().is_some() {
        follower.done();
        return response;
    }
    follower.streams();
    followed_to_the_wire(response, follower)
}

/// Returns the response with a follower that is done when the connection has received all of it.
pub(super) fn followed_to_the_wire(response: Response, follower: impl Follower) -> Response {
    let scope = follower.scope();
    response.map(|body| Body::new(FollowedBody { follower: Some(follower), scope, ..FollowedBody::of(body) }))
}

struct FollowedBody<F> {
    body: Body,
    follower: Option<F>,
    scope: Option<RequestScope>,
    /// The write that must end before the next part is sent.
    written: Option<BoxFuture<'static, ()>>,
    /// The part that waits for it; `Some(None)` is the end.
    held: Option<Option<BodyFrame>>,
}

type BodyFrame = Result<Frame<Bytes>, axum::Error>;

impl<F> FollowedBody<F> {
    fn of(body: Body) -> Self {
        Self { body, follower: None, scope: None, written: None, held: None }
    }
}

impl<F: Follower> HttpBody for FollowedBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<BodyFrame>> {
        let this = &mut *self;
        if let Some(written) = &mut this.written {
            ready!(written.as_mut().poll(context));
            this.written = None;
        }
        if let Some(part) = this.held.take() {
            return Poll::Ready(part);
        }
        let body = Pin::new(&mut this.body);
        let polled = match &this.scope {
            Some(scope) => scope.enter(|| body.poll_frame(context)),
            None => body.poll_frame(context),
        };
        let part = ready!(polled);
        this.written = this.follower.as_ref().and_then(F::count);
        match &part {
            Some(Ok(_)) => this.follower.iter_mut().for_each(F::sends),
            None => this.follower.take().into_iter().for_each(F::done),
            Some(Err(_)) => {}
        }
        if this.written.is_some() {
            this.held = Some(part);
            return self.poll_frame(context);
        }
        Poll::Ready(part)
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
