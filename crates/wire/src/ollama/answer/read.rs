//! Conversion of Ollama's answers to OpenAI's format, line by line or complete.

use crate::answer_error::{AnswerError, check_name, is_error};
use crate::stream_reader::{ServiceEvent, StreamReader};
use compact_str::CompactString;
use std::collections::VecDeque;
use valvehouse_core::chat::call::BadCall;
use valvehouse_core::chat::request::wants_usage;
use valvehouse_core::chat::{Ending, Head, ModelCall, message, response};
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// Reads one answer, complete or line by line.
#[derive(Debug)]
pub struct OllamaReader {
    head: Head,
    wants_usage: bool,
    begun: bool,
    /// The number of calls so far, over all lines.
    calls: usize,
    /// Set once the last line was read.
    is_over: bool,
}

impl StreamReader for OllamaReader {
    fn read_event(
        &mut self,
        event: ServiceEvent,
        out: &mut VecDeque<StreamChunk>,
    ) -> Result<(), AnswerError> {
        let line = event.json;
        if is_error(&line) {
            return Err(AnswerError::Sent(line));
        }
        check_calls(&line)?;
        out.extend(self.read(&line).into_iter().map(StreamChunk::new));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn end(&self) -> Option<AnswerError> {
        (!self.is_over).then(|| AnswerError::Cut("it ended without a line with `done: true`".into()))
    }
}

impl OllamaReader {
    /// Starts an answer to a chat request.
    pub fn new(request: &Json) -> Self {
        let head = Head::new(request.text_or_empty("model"));
        Self { head, wants_usage: wants_usage(request), begun: false, calls: 0, is_over: false }
    }

    fn read(&mut self, line: &Json) -> Vec<Json> {
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
        if let Some(usage) = usage(line).filter(|_| is_last && self.wants_usage) {
            chunks.push(self.head.usage_chunk(usage));
        }
        self.is_over = is_last;
        chunks
    }

    /// Reads a complete answer.
    ///
    /// # Errors
    /// Returns an error if the service sent one, and for an answer that is not complete.
    pub fn whole(self, answer: &Json) -> Result<Json, AnswerError> {
        if is_error(answer) {
            return Err(AnswerError::Sent(answer.clone()));
        }
        if answer.get("message").is_none() {
            return Err(AnswerError::Lacks("message", answer.clone()));
        }
        if answer.get("done").is_some_and(|done| done.as_bool() == Some(false)) {
            return Err(AnswerError::Cut("it has `done: false`".into()));
        }
        check_calls(answer)?;
        Ok(self.completion(answer))
    }

    fn completion(mut self, answer: &Json) -> Json {
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
        if let Some(usage) = usage(answer) {
            completion.put("usage", usage);
        }
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
fn check_calls(line: &Json) -> Result<(), BadCall> {
    let calls = line.field("message").list("tool_calls");
    calls.iter().try_for_each(|call| check_name(&call.field("function")))
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

/// Returns the token counts of the last line; a service leaves out those of a prompt that it has cached.
fn usage(last: &Json) -> Option<Json> {
    let count = |key: &str| last.get(key).and_then(|count| usize::try_from(count.as_i64()?).ok());
    let (prompt, completion) = (count("prompt_eval_count"), count("eval_count"));
    prompt.or(completion)?;
    Some(response::usage(prompt.unwrap_or(0), completion.unwrap_or(0)))
}
