//! The trace of a request, from the choice of its model to the last byte of the response, and the followers
//! of responses.

use crate::body::counted;
use crate::credentials::issued;
use crate::headers::{TRACE, TRACEPARENT};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use valvehouse_core::context::{Afterwards, HeldMemory, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::trace::{RequestFacts, RequestScope, TraceGuard};
use valvehouse_host::app::App;
use valvehouse_host::usage;
use valvehouse_json::Json;

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
    counted_at_end(app, parts, &mut recording);
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

/// Counts the request at its end: in the usage, and in the sums of its key.
fn counted_at_end(app: &Arc<App>, parts: &Parts, recording: &mut TraceGuard) {
    let key = issued(app, parts);
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
    let app = app.clone();
    recording.at_end(move |trace| {
        let prices = usage::prices(&app.host.snapshot(), &trace.request.model);
        app.usage.count(trace, key.as_ref().map_or("", |key| &key.name), prices.as_ref());
        if let Some(key) = key {
            key.charge(trace.tokens(), &prices.unwrap_or(Json::Null), app.host.kv());
        }
    });
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
    if recording.leaves_work() && response.body().size_hint().exact().is_some() {
        // The trace of a complete response ends at once. Scheduled tasks start when the response has been
        // sent.
        let afterwards = recording.afterwards();
        recording.done();
        return followed_to_the_wire(response, afterwards);
    }
    followed(response, recording)
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
    response.map(|body| Body::new(FollowedBody { body, follower: Some(follower), scope }))
}

struct FollowedBody<F> {
    body: Body,
    follower: Option<F>,
    scope: Option<RequestScope>,
}

impl<F: Follower> HttpBody for FollowedBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let body = Pin::new(&mut this.body);
        let polled = match &this.scope {
            Some(scope) => scope.enter(|| body.poll_frame(context)),
            None => body.poll_frame(context),
        };
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.follower.iter_mut().for_each(F::sends),
            Poll::Ready(None) => self.follower.take().into_iter().for_each(F::done),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
