//! Streamed answers of OpenAI's chat API, as events.

use super::correct::correct;
use crate::answer_error::{AnswerError, is_error};
use crate::stream_reader::{ServiceEvent, StreamReader};
use bytes::Bytes;
use memchr::memmem::Finder;
use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;
use valvehouse_core::chat::{CallStream, delta};
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// Finds events that may have tool calls.
static CALLS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"tool_calls\""));

/// Reads the events of a stream. Their bytes are passed on, unless they were corrected.
#[derive(Debug)]
pub struct ChatReader {
    calls: CallStream,
    choices: Choices,
    /// Set once a content had parts of thinking.
    has_parts: bool,
    /// Set once `[DONE]` was received.
    is_done: bool,
}

impl ChatReader {
    /// Starts an answer; `calls` corrects its tool calls.
    pub fn new(calls: CallStream) -> Self {
        Self { calls, choices: Choices::default(), has_parts: false, is_done: false }
    }
}

impl StreamReader for ChatReader {
    fn read_event(
        &mut self,
        event: ServiceEvent,
        out: &mut VecDeque<StreamChunk>,
    ) -> Result<(), AnswerError> {
        let ServiceEvent { name, data, json } = event;
        if name.as_deref() == Some("error") || is_error(&json) {
            return Err(AnswerError::Sent(json));
        }
        if let Some(api) = other_api(&json) {
            return Err(AnswerError::Unexpected(format!(
                "sent an event of {api} instead of a chat completion; check its base_url and kind"
            )));
        }
        let mut is_changed = correct(&json, &mut self.has_parts);
        self.choices.note(&json);
        if CALLS.find(&data).is_some() || self.calls.is_holding() {
            is_changed |= self.calls.correct(&json)?;
        }
        let raw = if is_changed { Bytes::new() } else { data };
        out.push_back(StreamChunk::received(raw, json, name));
        Ok(())
    }

    fn read_done(&mut self, out: &mut VecDeque<StreamChunk>) -> Result<(), AnswerError> {
        self.is_done = true;
        // A service that sends no finish reasons may leave calls open.
        out.extend(self.calls.rest()?.map(StreamChunk::new));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_done
    }

    /// A missing `[DONE]` is ignored if every choice has a finish reason.
    fn is_complete(&self) -> bool {
        self.choices.are_complete()
    }

    fn end(&self) -> Option<AnswerError> {
        match (self.is_done, self.choices.are_complete()) {
            (true, _) => self.choices.missing_at_done(),
            (false, true) => None,
            (false, false) => {
                Some(AnswerError::Cut("the stream ended without a finish_reason and without [DONE]".into()))
            }
        }
    }
}

/// The choices of a streamed answer by index; `true` once their finish reason was received.
#[derive(Debug, Default)]
pub struct Choices(BTreeMap<i64, bool>);

impl Choices {
    /// Adds the choices of an event.
    pub fn note(&mut self, event: &Json) {
        let Some(Json::Array(choices)) = event.get("choices") else { return };
        choices.with(|choices| {
            for (place, choice) in choices.iter().enumerate() {
                let index = choice.integer("index").unwrap_or(place as i64);
                *self.0.entry(index).or_default() |= delta::is_last(choice);
            }
        });
    }

    /// Returns `true` if every choice has a finish reason.
    pub fn are_complete(&self) -> bool {
        !self.0.is_empty() && self.0.values().all(|ended| *ended)
    }

    /// Returns the error of a stream that ended with `[DONE]`. If no choice has a finish reason, the service
    /// never sends them, and all choices are complete. If only some choices have one, the others are
    /// incomplete.
    fn missing_at_done(&self) -> Option<AnswerError> {
        if self.0.is_empty() {
            return Some(AnswerError::Cut("the stream ended without a response".into()));
        }
        let mut open = self.0.iter().filter(|(_, ended)| !**ended).map(|(index, _)| index);
        let first = open.next()?;
        let is_habit = open.count() + 1 == self.0.len();
        let cut = || AnswerError::Cut(format!("choice {first} ended without a finish_reason").into());
        (!is_habit).then(cut)
    }
}

/// Returns the API of an event, if it is another API than chat completions.
fn other_api(event: &Json) -> Option<&'static str> {
    let kind = event.text("type").filter(|_| event.get("choices").is_none())?;
    match kind.split(['.', '_']).next() {
        Some("message" | "content") => Some("Anthropic's Messages"),
        Some("response") => Some("OpenAI's Responses"),
        _ => None,
    }
}
