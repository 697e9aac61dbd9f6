//! The recorded answer of a model in a step that may pause. If a stream hook asks a person, the step runs again
//! with the recorded answer instead of a second model call.

use super::assembly::Kernel;
use crate::context::{HostCall, HostResult, Pauses, Turn};
use crate::error::Error;
use crate::filter::Hook;
use crate::provider::{Answer, StreamChunk};
use futures_util::stream::{self, BoxStream, StreamExt};
use valvehouse_json::Json;

/// The record of an answer as it arrives.
pub(super) struct Record<'a> {
    pauses: &'a Pauses,
    by: String,
    place: usize,
    events: Vec<Json>,
    whole: Json,
    /// Set once the provider has sent the complete answer.
    is_complete: bool,
    /// The approximate size of the events, in bytes.
    size: usize,
}

/// The maximum size of a recorded answer, in bytes. A longer one is not recorded, and the model is called again.
const MAX_RECORDED: usize = 32 << 20;

/// Returns the answer recorded before the pause, and a record for a new answer if the step may pause.
pub(super) fn begin<'a>(
    kernel: &Kernel,
    request: &Json,
    turn: &'a Turn,
) -> (Option<Answer>, Option<Record<'a>>) {
    let Some(pauses) = turn.pauses() else { return (None, None) };
    // Only stream hooks ask a person while an answer arrives.
    if ![Hook::Stream, Hook::StreamEnd].iter().any(|hook| kernel.chain().has(*hook)) {
        return (None, None);
    }
    // A model that a script calls in the meantime has a separate record.
    let by = format!("model:{}", turn.facts().callers.len());
    // The turn may be resumed with another `stream` setting.
    let request = request.deep_clone();
    ["stream", "stream_options"].iter().for_each(|key| drop(request.remove(key)));
    match pauses.host_call(&by, "chat", &request) {
        HostCall::Known(HostResult::Value(recorded)) => (answer_of(&recorded), None),
        HostCall::New(place) => {
            let (events, whole) = (Vec::new(), Json::Null);
            (None, Some(Record { pauses, by, place, events, whole, is_complete: false, size: 0 }))
        }
        // A changed request needs another model call.
        _ => (None, None),
    }
}

impl Record<'_> {
    pub(super) fn event(&mut self, event: &Json) {
        if event.as_object().is_none() || self.size > MAX_RECORDED {
            return;
        }
        self.size += event.size_estimate();
        match self.size > MAX_RECORDED {
            true => self.events = Vec::new(),
            false => self.events.push(event.deep_clone()),
        }
    }

    pub(super) fn whole(&mut self, answer: &Json) {
        self.whole = answer.deep_clone();
        self.is_complete = true;
    }

    /// Records the rest of the answer after the pause.
    pub(super) async fn rest(&mut self, chunks: &mut BoxStream<'static, Result<StreamChunk, Error>>) {
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => self.event(&chunk.event),
                Err(error) => {
                    tracing::warn!(
                        "an answer was interrupted after a filter asked a person; the model is called again when \
                         the step runs again: {error}"
                    );
                    return;
                }
            }
        }
        self.is_complete = true;
    }

    /// Stores the answer if the step pauses.
    pub(super) fn end(self, turn: &Turn) {
        let is_whole = self.is_complete && self.size <= MAX_RECORDED;
        let recorded = (turn.is_paused() && is_whole).then(|| {
            HostResult::Value(match self.whole {
                Json::Null => Json::from([("events", self.events.into())]),
                whole => Json::from([("whole", whole)]),
            })
        });
        self.pauses.host_called(&self.by, self.place, recorded);
    }
}

fn answer_of(recorded: &Json) -> Option<Answer> {
    if let Some(whole) = recorded.get("whole") {
        return Some(Answer::Whole(whole));
    }
    let events = recorded.get("events")?.items();
    Some(Answer::Stream(stream::iter(events.into_iter().map(|event| Ok(StreamChunk::new(event)))).boxed()))
}
