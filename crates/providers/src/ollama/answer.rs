//! Conversion of Ollama's answers to OpenAI's format, line by line or complete.
//!
//! A streamed answer consists of lines of JSON, which may arrive in any pieces.

use crate::origin::{Origin, is_error};
use crate::service::{Reads, drain, read};
use bytes::{Bytes, BytesMut};
use compact_str::CompactString;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::VecDeque;
use valvehouse_core::chat::{Ending, Head, ModelCall, message, response};
use valvehouse_core::error::Error;
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// Converts the lines of one answer to chunks.
pub(super) struct AnswerReader {
    head: Head,
    wants_usage: bool,
    begun: bool,
    /// The number of calls so far, over all lines.
    calls: usize,
}

/// The chunks for a line.
pub(super) struct Read {
    pub(super) chunks: Vec<Json>,
    /// Set for the last line.
    pub(super) is_last: bool,
}

impl AnswerReader {
    pub(super) fn new(model: CompactString, wants_usage: bool) -> Self {
        Self { head: Head::new(model), wants_usage, begun: false, calls: 0 }
    }

    /// Converts one line of a stream.
    pub(super) fn read(&mut self, line: &Json) -> Read {
        self.name_model(line);
        let message = line.field("message");
        let delta = Json::object();
        // A new object accepts any value.
        let add = |key: &str, value: Json| {
            delta.put(key, value);
        };
        if !std::mem::replace(&mut self.begun, true) {
            add("role", "assistant".into());
        }
        if let Some(thinking) = thinking(&message) {
            add("reasoning_content", thinking.into());
        }
        let content = message::text_of(&message);
        if !content.is_empty() {
            add("content", content.into());
        }
        let calls = self.calls(&message, true);
        if !calls.is_empty() {
            add("tool_calls", calls.into());
        }
        let is_last = line.get("done").is_some_and(|done| done.as_bool() == Some(true));
        let mut chunks = Vec::new();
        if !delta.is_empty() || is_last {
            let why = is_last.then(|| self.why(line));
            let chunk = self.head.chunk(delta, why);
            take_logprobs(line, &chunk);
            chunks.push(chunk);
        }
        if is_last && self.wants_usage {
            chunks.push(self.head.usage_chunk(usage(line)));
        }
        Read { chunks, is_last }
    }

    /// Converts a complete answer.
    pub(super) fn whole(mut self, answer: &Json) -> Json {
        self.name_model(answer);
        let ollama_message = answer.field("message");
        let calls = self.calls(&ollama_message, false);
        let content = message::text_of(&ollama_message);
        // OpenAI's content is null if a message only contains calls.
        let content = if content.is_empty() && !calls.is_empty() { Json::Null } else { content.into() };
        let message = message::assistant(content);
        if let Some(thinking) = thinking(&ollama_message) {
            message.put("reasoning_content", thinking);
        }
        if !calls.is_empty() {
            message.put("tool_calls", calls);
        }
        let completion = self.head.completion(message, self.why(answer));
        take_logprobs(answer, &completion);
        completion.put("usage", usage(answer));
        completion
    }

    fn name_model(&mut self, line: &Json) {
        if let Some(model) = line.text("model").filter(|_| !self.begun) {
            self.head.model = model;
        }
    }

    /// Returns the calls of a message: with their arguments as text, and with ids that results can refer to.
    fn calls(&mut self, message: &Json, numbered: bool) -> Vec<Json> {
        let mut calls = Vec::new();
        for mut call in ModelCall::all(message) {
            if call.id.is_empty() {
                call.id = format!("call_{}", uuid::Uuid::new_v4().simple()).into();
            }
            if call.arguments.is_empty() {
                call.arguments = "{}".into();
            }
            let call_json = call.to_json();
            if numbered {
                call_json.edit("index", self.calls);
            }
            self.calls += 1;
            calls.push(call_json);
        }
        calls
    }

    fn why(&self, last: &Json) -> &'static str {
        match last.text("done_reason").map(|reason| Ending::of(&reason)) {
            Some(ending) if !ending.is_complete() => ending.finish_reason(),
            _ if self.calls > 0 => "tool_calls",
            _ => "stop",
        }
    }
}

/// Checks the names of the tools that an answer or a line of it calls.
pub(super) fn check_calls(origin: &Origin, line: &Json) -> Result<(), Error> {
    let calls = line.field("message").list("tool_calls");
    calls.iter().try_for_each(|call| origin.check_name(&call.field("function")))
}

fn thinking(message: &Json) -> Option<CompactString> {
    message.text("thinking").filter(|thinking| !thinking.is_empty())
}

/// Copies the log probabilities, which have the same format but are beside the message.
fn take_logprobs(line: &Json, answer: &Json) {
    if let Some(logprobs) = line.get("logprobs").filter(|logprobs| !logprobs.is_empty()) {
        let choice = answer.at_path("choices.0");
        choice.edit("logprobs", Json::from([("content", logprobs)]));
    }
}

fn usage(last: &Json) -> Json {
    let count = |key: &str| {
        let count = last.get(key).and_then(|count| count.as_i64()).unwrap_or(0);
        usize::try_from(count).unwrap_or(0)
    };
    response::usage(count("prompt_eval_count"), count("eval_count"))
}

/// The maximum length of a line, in bytes. It is large, because calls arrive complete.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Converts the lines of a streamed answer to chunks. An error is the last item.
pub(super) fn chunks(
    origin: Origin,
    reading: AnswerReader,
    body: BoxStream<'static, Result<Bytes, Error>>,
) -> BoxStream<'static, Result<StreamChunk, Error>> {
    let lines = Lines {
        origin,
        reading,
        body,
        held: BytesMut::new(),
        searched: 0,
        ready: VecDeque::new(),
        state: State::Going,
    };
    read(lines)
}

struct Lines {
    origin: Origin,
    reading: AnswerReader,
    body: BoxStream<'static, Result<Bytes, Error>>,
    /// The bytes of an incomplete line.
    held: BytesMut,
    /// The number of these bytes that were searched for the end of the line.
    searched: usize,
    ready: VecDeque<Json>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    /// The body has ended, so the remaining bytes are the last line.
    Over,
    /// The last line was read.
    Done,
}

impl Reads for Lines {
    async fn next(&mut self) -> Option<Result<StreamChunk, Error>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(StreamChunk::new(chunk)));
            }
            if self.state == State::Done {
                drain(&mut self.body).await;
                return None;
            }
            match self.line() {
                Some(line) => match self.read(&line) {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                },
                None if self.state == State::Over => {
                    return Some(Err(self.origin.cut("it ended without a line with `done: true`")));
                }
                None => match self.body.next().await {
                    Some(Ok(bytes)) if self.held.len() + bytes.len() > MAX_LINE => {
                        let what = format!("sent a line that exceeded its limit of {} MiB", MAX_LINE >> 20);
                        return Some(Err(self.origin.error(&what)));
                    }
                    Some(Ok(bytes)) => self.held.extend_from_slice(&bytes),
                    Some(Err(error)) => return Some(Err(error)),
                    None => self.state = State::Over,
                },
            }
        }
    }
}

impl Lines {
    /// Returns the next line that is not empty.
    fn line(&mut self) -> Option<BytesMut> {
        loop {
            let line = match self.held[self.searched..].iter().position(|byte| *byte == b'\n') {
                Some(end) => self.held.split_to(self.searched + end + 1),
                None if self.state == State::Over && !self.held.is_empty() => self.held.split(),
                None => {
                    self.searched = self.held.len();
                    return None;
                }
            };
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<(), Error> {
        let json = self.origin.parse_part("a line", line, self.state == State::Over)?;
        if is_error(&json) {
            return Err(self.origin.in_band(&json));
        }
        check_calls(&self.origin, &json)?;
        let read = self.reading.read(&json);
        self.ready.extend(read.chunks);
        if read.is_last {
            self.state = State::Done;
        }
        Ok(())
    }
}
