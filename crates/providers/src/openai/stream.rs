//! An answer that comes as events: pieces, errors among them, and whether the end is a proper end.

use crate::origin::{Origin, is_error};
use crate::service::{Reads, drain, read};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use valvehouse_core::chat::delta;
use valvehouse_core::fault::Fault;
use valvehouse_core::provider::Piece;
use valvehouse_json::Json;
use valvehouse_net::sse::{Event, Parser};

/// The pieces of a streamed answer. An error is the last item.
pub(super) fn pieces(
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Fault>>,
) -> BoxStream<'static, Result<Piece, Fault>> {
    let reader = Reader { origin, body, parser: Parser::default(), ended: false, choices: BTreeMap::new() };
    read(reader)
}

struct Reader {
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Fault>>,
    parser: Parser,
    ended: bool,
    /// By index, whether a choice has said why it ended.
    choices: BTreeMap<i64, bool>,
}

enum Line {
    Piece(Piece),
    Done,
    Nothing,
}

impl Reads for Reader {
    async fn next(&mut self) -> Option<Result<Piece, Fault>> {
        loop {
            match self.parser.next() {
                Some(Ok(event)) => match self.read(event) {
                    Ok(Line::Piece(piece)) => return Some(Ok(piece)),
                    Ok(Line::Done) => {
                        drain(&mut self.body).await;
                        return self.done().map(Err);
                    }
                    Ok(Line::Nothing) => {}
                    Err(fault) => return Some(Err(fault)),
                },
                Some(Err(error)) => return Some(Err(self.origin.fault(&format!("cannot be read: {error}")))),
                None if self.ended => return self.end().map(Err),
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.parser.push(&bytes),
                    Some(Err(fault)) if self.is_complete() => {
                        tracing::debug!("after the end of an answer: {fault}");
                        return None;
                    }
                    Some(Err(fault)) => return Some(Err(fault)),
                    None => {
                        self.ended = true;
                        self.parser.finish();
                    }
                },
            }
        }
    }
}

impl Reader {
    fn read(&mut self, event: Event) -> Result<Line, Fault> {
        match event.data.trim_ascii() {
            b"" => return Ok(Line::Nothing),
            b"[DONE]" => return Ok(Line::Done),
            _ => {}
        }
        let json = self.origin.parse_part("an event", &event.data, self.ended)?;
        if event.name.as_deref() == Some("error") || is_error(&json) {
            return Err(self.origin.in_band(&json));
        }
        if let Some(api) = other_api(&json) {
            let what =
                format!("sent an event of {api} instead of a chat completion; check its base_url and kind");
            return Err(self.origin.fault(&what));
        }
        self.note_choices(&json);
        Ok(Line::Piece(Piece::received(event.data, json, event.name)))
    }

    fn note_choices(&mut self, event: &Json) {
        let Some(Json::Array(choices)) = event.get("choices") else { return };
        choices.with(|choices| {
            for (place, choice) in choices.iter().enumerate() {
                let index = choice.get("index").and_then(|index| index.as_i64()).unwrap_or(place as i64);
                *self.choices.entry(index).or_default() |= delta::is_last(choice);
            }
        });
    }

    /// Returns `true` if every choice has said why it ended: then a missing `[DONE]` is only a habit.
    fn is_complete(&self) -> bool {
        !self.choices.is_empty() && self.choices.values().all(|ended| *ended)
    }

    /// The fault of an answer that its service says is done. A service that never says why choices end has ended them
    /// all; one that says it of some broke off the others.
    fn done(&self) -> Option<Fault> {
        if self.choices.is_empty() {
            return Some(self.origin.cut("the stream ended without an answer in it"));
        }
        let mut open = self.choices.iter().filter(|(_, ended)| !**ended).map(|(index, _)| index);
        let first = open.next()?;
        let is_habit = open.count() + 1 == self.choices.len();
        (!is_habit).then(|| self.origin.cut(&format!("choice {first} ended without a finish_reason")))
    }

    fn end(&self) -> Option<Fault> {
        (!self.is_complete())
            .then(|| self.origin.cut("the stream ended without a finish_reason and without [DONE]"))
    }
}

/// The API that an event belongs to, where it is none of a chat completion.
fn other_api(event: &Json) -> Option<&'static str> {
    let kind = event.text("type").filter(|_| event.get("choices").is_none())?;
    match kind.split(['.', '_']).next() {
        Some("message" | "content") => Some("Anthropic's Messages"),
        Some("response") => Some("OpenAI's Responses"),
        _ => None,
    }
}
