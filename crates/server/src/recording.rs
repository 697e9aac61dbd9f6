//! Requests that are written down: from the moment their model is known to the last byte of the answer.

use crate::follower::{Follower, followed};
use crate::headers::{TRACE, TRACEPARENT};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use valvehouse_core::context::{Afterwards, TurnFacts};
use valvehouse_core::fault::Fault;
use valvehouse_core::trace::{Asked, Recording};
use valvehouse_host::app::App;

/// A request begins at a door.
pub(super) fn begin(
    app: &Arc<App>,
    door: &'static str,
    stream: bool,
    generation: u64,
    headers: &HeaderMap,
    facts: &mut TurnFacts,
) -> Recording {
    let recording = recorded(app, door, stream, generation, wants_contents(headers), facts);
    if let Some(parent) = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()) {
        recording.trace().belongs_to(parent);
    }
    recording
}

/// The same where it does not depend on the request whether values are kept.
pub(super) fn recorded(
    app: &Arc<App>,
    door: &'static str,
    stream: bool,
    generation: u64,
    everything: bool,
    facts: &mut TurnFacts,
) -> Recording {
    let text = |json: &valvehouse_json::Json| json.text("id").map(String::from).unwrap_or_default();
    let asked = Asked {
        door,
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
    recording: Recording,
    answered: Result<Response, Fault>,
    refused: impl FnOnce(Fault) -> Response,
) -> Response {
    let response = answered.unwrap_or_else(|fault| refused(recording.failed(fault)));
    until_end(recording, response)
}

/// The answer to a request; it is over when the answer is.
pub(super) fn until_end(mut recording: Recording, mut response: Response) -> Response {
    recording.answered(response.status().as_u16());
    if let Ok(id) = HeaderValue::from_str(&recording.trace().id) {
        response.headers_mut().insert(TRACE, id);
    }
    if recording.leaves_work() && response.body().size_hint().exact().is_some() {
        // A whole answer is over for its trace; what is left waits until it is sent.
        let afterwards = recording.afterwards();
        let response = response.map(|body| Body::new(BodyWithWork { body, _afterwards: afterwards }));
        recording.done();
        return response;
    }
    followed(response, recording)
}

/// An answer that is there as a whole, for which work waits.
struct BodyWithWork {
    body: Body,
    /// Handed on when the connection has the body, or is gone.
    _afterwards: Afterwards,
}

impl HttpBody for BodyWithWork {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Follower for Recording {
    fn done(self) {
        Self::done(self);
    }
}
