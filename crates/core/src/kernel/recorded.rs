//! The answer of a model in a step that may pause: the model is asked once. A step that runs again because a hook of its
//! stream asked a person gets the recorded answer.

use super::assembly::Kernel;
use crate::context::{HostCall, HostResult, Pauses, Turn};
use crate::fault::Fault;
use crate::filter::Hook;
use crate::provider::{Answer, Piece};
use futures_util::stream::{self, BoxStream, StreamExt};
use valvehouse_json::Json;

/// The record of an answer that comes now.
pub(super) struct Record<'a> {
    pauses: &'a Pauses,
    by: String,
    place: usize,
    events: Vec<Json>,
    whole: Json,
    /// Is `true` once the service has said all.
    is_complete: bool,
}

/// The answer that was recorded before the step paused, and the record of a new one where there may be a pause.
pub(super) fn begin<'a>(
    kernel: &Kernel,
    asked: &Json,
    turn: &'a Turn,
) -> (Option<Answer>, Option<Record<'a>>) {
    let Some(pauses) = turn.pauses() else { return (None, None) };
    // Nobody else asks a person while an answer comes.
    if ![Hook::Stream, Hook::StreamEnd].iter().any(|hook| kernel.chain().has(*hook)) {
        return (None, None);
    }
    // A model that a script asks meanwhile is another one's.
    let by = format!("model:{}", turn.facts().callers.len());
    // The resumed turn may be streamed or not, however this one was.
    let asked = asked.copy();
    ["stream", "stream_options"].iter().for_each(|key| drop(asked.remove(key)));
    match pauses.host_call(&by, "chat", &asked) {
        HostCall::Known(HostResult::Value(recorded)) => (answer_of(&recorded), None),
        HostCall::New(place) => {
            let (events, whole) = (Vec::new(), Json::Null);
            (None, Some(Record { pauses, by, place, events, whole, is_complete: false }))
        }
        // Another request is answered anew.
        _ => (None, None),
    }
}

impl Record<'_> {
    pub(super) fn event(&mut self, event: &Json) {
        if event.as_object().is_some() {
            self.events.push(event.copy());
        }
    }

    pub(super) fn whole(&mut self, answer: &Json) {
        self.whole = answer.copy();
        self.is_complete = true;
    }

    /// Takes in what the service says after the pause.
    pub(super) async fn rest(&mut self, pieces: &mut BoxStream<'static, Result<Piece, Fault>>) {
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => self.event(&piece.event),
                Err(fault) => {
                    tracing::warn!(
                        "an answer broke off after a filter asked a person; the model is asked again when the step \
                         runs again: {fault}"
                    );
                    return;
                }
            }
        }
        self.is_complete = true;
    }

    /// Keeps the answer if the step pauses.
    pub(super) fn end(self, turn: &Turn) {
        let recorded = (turn.is_paused() && self.is_complete).then(|| {
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
    Some(Answer::Stream(stream::iter(events.into_iter().map(|event| Ok(Piece::new(event)))).boxed()))
}
