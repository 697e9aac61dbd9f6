//! Requests that are written down: from the moment their model is known to the last byte of the answer.
//!
//! Answers that are followed to their last byte.

use crate::headers::{TRACE, TRACEPARENT};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use valvehouse_core::context::{Afterwards, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::trace::{RequestFacts, TraceGuard};
use valvehouse_host::app::App;

/// A request begins at an endpoint.
pub(super) fn begin(
    app: &Arc<App>,
    endpoint: &'static str,
    stream: bool,
    generation: u64,
    headers: &HeaderMap,
    facts: &mut TurnFacts,
) -> TraceGuard {
    let recording = recorded(app, endpoint, stream, generation, wants_contents(headers), facts);
    if let Some(parent) = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()) {
        recording.trace().belongs_to(parent);
    }
    recording
}

/// The same where it does not depend on the request whether values are kept.
pub(super) fn recorded(
    app: &Arc<App>,
    endpoint: &'static str,
    stream: bool,
    generation: u64,
    everything: bool,
    facts: &mut TurnFacts,
) -> TraceGuard {
    let text = |json: &valvehouse_json::Json| json.string("id");
    let asked = RequestFacts {
        endpoint,
        model: text(&facts.model),
        stream,
        user: text(&facts.user),
        chat_id: facts.chat_id.clone(),
        generation,
    };
    let mut recording = app.traces.begin(asked, everything);
    facts.trace = Some(recording.trace().clone());
    facts.afterwards = Some(recording.afterwards());
    recording
}

fn wants_contents(headers: &HeaderMap) -> bool {
    headers.get(TRACE).is_some_and(|value| value == "content")
}

/// The answer to a request, or its refusal.
pub(super) fn ended(
    recording: TraceGuard,
    answered: Result<Response, Error>,
    refused: impl FnOnce(Error) -> Response,
) -> Response {
    let response = answered.unwrap_or_else(|error| refused(recording.failed(error)));
    until_end(recording, response)
}

/// The answer to a request; it is over when the answer is.
pub(super) fn until_end(mut recording: TraceGuard, mut response: Response) -> Response {
    recording.answered(response.status().as_u16());
    if let Ok(id) = HeaderValue::from_str(&recording.trace().id) {
        response.headers_mut().insert(TRACE, id);
    }
    if recording.leaves_work() && response.body().size_hint().exact().is_some() {
        // A whole answer is over for its trace; what is left waits until it is sent.
        let afterwards = recording.afterwards();
        recording.done();
        return followed_to_the_wire(response, afterwards);
    }
    followed(response, recording)
}

impl Follower for TraceGuard {
    fn done(self) {
        Self::done(self);
    }
}

/// Work that waits for the answer is handed on when the last clone is dropped.
impl Follower for Afterwards {
    fn done(self) {}
}

/// The follower of an answer. Dropped before the end, it records that the client disconnected.
pub(super) trait Follower: Send + Unpin + 'static {
    /// The answer comes bit by bit.
    fn streams(&mut self) {}
    /// A bit of it.
    fn sends(&mut self) {}
    /// The answer is complete.
    fn done(self);
}

/// The same answer, followed to its end: one that is there as a whole has it behind it.
pub(super) fn followed(response: Response, mut follower: impl Follower) -> Response {
    if response.body().size_hint().exact().is_some() {
        follower.done();
        return response;
    }
    follower.streams();
    followed_to_the_wire(response, follower)
}

/// The same answer, whose follower is kept until the connection has all of it, also where it is there as a whole.
pub(super) fn followed_to_the_wire(response: Response, follower: impl Follower) -> Response {
    response.map(|body| Body::new(FollowedBody { body, follower: Some(follower) }))
}

struct FollowedBody<F> {
    body: Body,
    follower: Option<F>,
}

impl<F: Follower> HttpBody for FollowedBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
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
