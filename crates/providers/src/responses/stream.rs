//! Conversion of the events of a response to chunks of a chat. The reader reports errors among the events and
//! detects an incomplete end.

use super::answer;
use super::ask::object;
use crate::origin::{Origin, is_error};
use crate::service::{Reads, drain, read};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::{HashMap, HashSet, VecDeque};
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::chat::items;
use valvehouse_core::error::Error;
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;
use valvehouse_net::sse::{Parser, SseEvent};

/// Converts the events of a streamed answer to chunks. An error is the last item.
pub(super) fn chunks(
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    with_usage: bool,
) -> BoxStream<'static, Result<StreamChunk, Error>> {
    let response = Response { with_usage, ..Response::default() };
    read(Reader { origin, body, parser: Parser::default(), response, is_ended: false, is_failed: false })
}

struct Reader {
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    parser: Parser,
    response: Response,
    is_ended: bool,
    /// Set once the response failed without a reason, which may follow in an `error` event.
    is_failed: bool,
}

/// The response received so far.
#[derive(Default)]
struct Response {
    with_usage: bool,
    /// The response object of the first event, which contains the id.
    head: Json,
    ready: VecDeque<Json>,
    /// The positions of the items whose content arrived in chunks.
    streamed_items: HashSet<i64>,
    /// The number of each call, by the position of its item.
    calls: HashMap<i64, usize>,
    /// The position of the latest thoughts.
    thought: Option<(i64, i64)>,
    is_over: bool,
}

impl Reads for Reader {
    async fn next(&mut self) -> Option<Result<StreamChunk, Error>> {
        loop {
            if let Some(chunk) = self.response.ready.pop_front() {
                return Some(Ok(StreamChunk::new(chunk)));
            }
            if self.response.is_over {
                drain(&mut self.body).await;
                return None;
            }
            match self.parser.next() {
                Some(Ok(event)) => {
                    if let Err(error) = self.read(&event) {
                        return Some(Err(error));
                    }
                }
                Some(Err(error)) => {
                    return Some(Err(self
                        .origin
                        .error(&format!("sent a stream that cannot be read: {error}"))));
                }
                None if self.is_ended && self.is_failed => {
                    return Some(Err(answer::failed(&Json::Null, &self.origin)));
                }
                None if self.is_ended => {
                    return Some(Err(self.origin.cut("the stream ended before response.completed")));
                }
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.parser.push(&bytes),
                    Some(Err(error)) => return Some(Err(error)),
                    None => {
                        self.is_ended = true;
                        self.parser.finish();
                    }
                },
            }
        }
    }
}

impl Reader {
    fn read(&mut self, event: &SseEvent) -> Result<(), Error> {
        if matches!(event.data.trim_ascii(), b"" | b"[DONE]") {
            return Ok(());
        }
        let json = self.origin.parse_part("an event", &event.data, self.is_ended)?;
        match &*json.text_or_empty("type") {
            "error" | "" => return Err(answer::failed(&json, &self.origin)),
            "response.failed" | "response.cancelled" => match answer::error_in(&json) {
                Some(_) => return Err(answer::failed(&json, &self.origin)),
                None => self.is_failed = true,
            },
            _ if self.is_failed => {}
            kind if !kind.starts_with("response.") && is_error(&json) => {
                return Err(answer::failed(&json, &self.origin));
            }
            kind => {
                if kind == "response.output_item.done" && is_call(&json.field("item")) {
                    self.origin.check_name(&json.field("item"))?;
                }
                self.response.read(kind, &json);
            }
        }
        Ok(())
    }
}

impl Response {
    fn read(&mut self, kind: &str, event: &Json) {
        let place = event.get("output_index").and_then(|place| place.as_i64()).unwrap_or(0);
        let delta = || event.field("delta");
        match kind {
            "response.created" => {
                self.head = event.field("response");
                self.delta([("role", "assistant".into()), ("content", "".into())]);
            }
            "response.output_text.delta" => {
                self.streamed_items.insert(place);
                let logprobs = event.list("logprobs");
                self.delta([("content", delta())]);
                if let (false, Some(chunk)) = (logprobs.is_empty(), self.ready.back()) {
                    // The object is new, so it accepts any value.
                    chunk.at_path("choices.0").edit("logprobs", Json::from([("content", logprobs.into())]));
                }
            }
            "response.output_text.annotation.added" => {
                let source = answer::annotation(&event.field("annotation"));
                self.delta([("annotations", vec![source].into())]);
            }
            "response.refusal.delta" => {
                self.streamed_items.insert(place);
                self.delta([("refusal", delta())]);
            }
            "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning.delta" => {
                self.streamed_items.insert(place);
                let index =
                    ["summary_index", "content_index"].into_iter().find_map(|key| event.get(key)?.as_i64());
                let now = (place, index.unwrap_or(0));
                // Each part of a summary is a paragraph.
                let is_next = self.thought.replace(now).is_some_and(|before| before != now);
                let text = event.text_or_empty("delta");
                let text = if is_next { format!("\n\n{text}") } else { text.to_string() };
                self.delta([("reasoning_content", text.into())]);
            }
            "response.output_item.added" => self.added(place, &event.field("item")),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                if self.calls.contains_key(&place) {
                    self.streamed_items.insert(place);
                }
                let is_custom = kind == "response.custom_tool_call_input.delta";
                self.called(place, is_custom, delta());
            }
            "response.output_item.done" => self.done(place, &event.field("item")),
            "response.completed" | "response.incomplete" => self.end(&event.field("response")),
            // The other events repeat this content, or report the progress of a hosted tool.
            _ => {}
        }
    }

    fn added(&mut self, place: i64, item: &Json) {
        // A call whose name is not known yet is added once it is done.
        let has_name = item.text("name").is_some_and(|name| !name.is_empty());
        if !is_call(item) || !has_name || self.calls.contains_key(&place) {
            return;
        }
        let kind = item.text_or_empty("type");
        let number = self.calls.len();
        self.calls.insert(place, number);
        let (kind, key) =
            if kind == "custom_tool_call" { ("custom", "input") } else { ("function", "arguments") };
        let called = Json::from([("name", answer::name_of(item)), (key, "".into())]);
        let call =
            [("index", number.into()), ("id", item.field("call_id")), ("type", kind.into()), (kind, called)];
        self.delta([("tool_calls", vec![Json::from(call)].into())]);
    }

    /// Adds arguments or input to a call.
    fn called(&mut self, place: i64, is_custom: bool, given: Json) {
        let Some(number) = self.calls.get(&place) else { return };
        let (kind, key) = if is_custom { ("custom", "input") } else { ("function", "arguments") };
        let call = Json::from([("index", (*number).into()), (kind, Json::from([(key, given)]))]);
        self.delta([("tool_calls", vec![call].into())]);
    }

    /// Completes an item: content that did not arrive in chunks is added now.
    fn done(&mut self, place: i64, item: &Json) {
        let has_come = self.streamed_items.contains(&place);
        let kind = item.text_or_empty("type");
        match &*kind {
            "function_call" | "custom_tool_call" => {
                self.added(place, item);
                let is_custom = kind == "custom_tool_call";
                let given = item.field(if is_custom { "input" } else { "arguments" });
                if !has_come && !given.is_empty() {
                    self.called(place, is_custom, given);
                }
            }
            "message" if has_come => {}
            "message" => {
                for part in item.list("content") {
                    for (key, field) in [("text", "content"), ("refusal", "refusal")] {
                        if let Some(text) = part.given(key) {
                            self.delta([(field, text)]);
                        }
                    }
                }
            }
            "reasoning" => {
                if let (false, Some(text)) = (has_come, answer::shown(item)) {
                    self.delta([("reasoning_content", text.into())]);
                }
                if let Some(item) = answer::opaque(item) {
                    self.block(item);
                }
            }
            _ => self.block(item.clone()),
        }
    }

    fn block(&mut self, item: Json) {
        let block = items::block(item, self.calls.len());
        self.delta([(CONTENT_BLOCKS, vec![block].into())]);
    }

    fn end(&mut self, response: &Json) {
        self.is_over = true;
        if self.head.is_null() {
            self.head = response.clone();
        }
        let reason = answer::finish_reason(response, !self.calls.is_empty());
        self.chunk(Json::object(), reason.into());
        if let Some(usage) = answer::usage(response).filter(|_| self.with_usage) {
            let mut fields = answer::head(&self.head, "chat.completion.chunk");
            fields.extend([("choices", Json::array()), ("usage", usage)]);
            self.ready.push_back(object(fields));
        }
    }

    fn delta<const N: usize>(&mut self, delta: [(&str, Json); N]) {
        self.chunk(Json::from(delta), Json::Null);
    }

    fn chunk(&mut self, delta: Json, reason: Json) {
        let choice = [("index", CHOICE.into()), ("delta", delta), ("finish_reason", reason)];
        let mut fields = answer::head(&self.head, "chat.completion.chunk");
        fields.push(("choices", vec![Json::from(choice)].into()));
        self.ready.push_back(object(fields));
    }
}

/// Returns `true` for an item that calls a tool of the client.
fn is_call(item: &Json) -> bool {
    matches!(&*item.text_or_empty("type"), "function_call" | "custom_tool_call")
}

/// The index of the only choice.
const CHOICE: i64 = 0;
