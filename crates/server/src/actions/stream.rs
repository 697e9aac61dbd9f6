//! The server-sent events of a press: emitted events as `{"event": …}`, then the result as `{"result": …}`.

use super::press::Work;
use crate::openai::relay;
use crate::turn::events::as_events;
use crate::turn::keep_alive::KeepAlive;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use valvehouse_core::context::{EmittedEvents, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::provider::StreamChunk;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Streams the events of a press.
///
/// # Errors
/// Returns a failure before the first event, which is reported by the HTTP status.
pub(super) async fn streamed(
    app: &Arc<App>,
    turn: Turn,
    work: Work,
    emitted: EmittedEvents,
) -> Result<Response, Error> {
    let mut steps = Steps { work: Some(work), emitted, end: None };
    let first = match steps.next().await {
        Some(Step::End(Err(error))) => return Err(error),
        first => first,
    };
    let bytes = stream::iter(first).chain(steps).map(move |step| written(step, &turn));
    let mut response = Response::default();
    as_events(&mut response, KeepAlive::new(bytes, app.config.server.keep_alive_ms));
    Ok(response)
}

fn written(step: Step, turn: &Turn) -> Bytes {
    match step {
        Step::Emitted(event) => relay::emitted(&event),
        Step::End(Ok(result)) => {
            let result = relay::event(&StreamChunk::new(Json::from([("result", result)])));
            [&result[..], relay::DONE].concat().into()
        }
        Step::End(Err(error)) => {
            tracing::warn!("an action ended with an error: {error}");
            if let Some(trace) = turn.trace() {
                trace.fail(&error.to_string());
            }
            relay::failed(&error)
        }
    }
}

/// A part of the stream.
enum Step {
    Emitted(Json),
    End(Result<Json, Error>),
}

/// The events of a press, followed by its end.
struct Steps {
    /// `None` once the press has ended.
    work: Option<Work>,
    emitted: EmittedEvents,
    end: Option<Result<Json, Error>>,
}

impl Stream for Steps {
    type Item = Step;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Step>> {
        let this = &mut *self;
        if let Some(work) = &mut this.work
            && let Poll::Ready(end) = work.as_mut().poll(context)
        {
            (this.work, this.end) = (None, Some(end));
        }
        if this.work.is_none() {
            let step = this.emitted.take_ready().map(Step::Emitted);
            return Poll::Ready(step.or_else(|| this.end.take().map(Step::End)));
        }
        match this.emitted.poll_next(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(Step::Emitted(event))),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
