//! Conversion of the events of a response to chunks of a chat.

use crate::answer_error::{AnswerError, check_name, is_error};
use crate::responses::order::{MESSAGE, beginning, phase_of};
use crate::responses::{answer, usage};
use crate::stream_reader::{ServiceEvent, StreamReader};
use compact_str::CompactString;
use std::collections::{HashMap, HashSet, VecDeque};
use valvehouse_core::chat::message::TEXT_BREAK;
use valvehouse_core::chat::{CONTENT_BLOCKS, items};
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// Converts the events of a response to chunks of a chat.
#[derive(Debug, Default)]
pub struct ResponsesReader {
    with_usage: bool,
    /// The response object of the first event, which contains the id.
    head: Json,
    ready: Vec<Json>,
    /// The positions of the items whose content arrived in chunks.
    streamed_items: HashSet<i64>,
    /// The types of the items that events had.
    kinds: HashSet<CompactString>,
    /// The number of each call, by the position of its item.
    calls: HashMap<i64, usize>,
    /// The position of the latest thoughts.
    thought: Option<(i64, i64)>,
    /// The position of the latest message.
    message: Option<i64>,
    is_over: bool,
    /// Set once the response failed without a reason, which may follow in an `error` event.
    is_failed: bool,
}

impl StreamReader for ResponsesReader {
    fn read_event(
        &mut self,
        event: ServiceEvent,
        out: &mut VecDeque<StreamChunk>,
    ) -> Result<(), AnswerError> {
        let json = event.json;
        match &*json.text_or_empty("type") {
            "error" | "" => return Err(answer::failed(&json)),
            "response.failed" | "response.cancelled" => match answer::error_in(&json) {
                Some(_) => return Err(answer::failed(&json)),
                None => self.is_failed = true,
            },
            _ if self.is_failed => {}
            kind if !kind.starts_with("response.") && is_error(&json) => return Err(answer::failed(&json)),
            kind => {
                let items = match kind {
                    "response.output_item.done" => vec![json.field("item")],
                    "response.completed" | "response.incomplete" => json.field("response").list("output"),
                    _ => Vec::new(),
                };
                items.iter().filter(|item| is_call(item)).try_for_each(check_name)?;
                self.read(kind, &json);
                out.extend(self.ready.drain(..).map(StreamChunk::new));
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn end(&self) -> Option<AnswerError> {
        match (self.is_over, self.is_failed) {
            (true, _) => None,
            (false, true) => Some(answer::failed(&Json::Null)),
            (false, false) => Some(AnswerError::Cut("the stream ended before response.completed".into())),
        }
    }
}

impl ResponsesReader {
    /// Appends a final chunk with the usage, if `is_enabled`.
    #[must_use]
    pub fn with_usage(mut self, is_enabled: bool) -> Self {
        self.with_usage = is_enabled;
        self
    }

    fn read(&mut self, kind: &str, event: &Json) {
        let place = event.integer("output_index").unwrap_or(0);
        let delta = || event.field("delta");
        match kind {
            "response.created" => {
                self.head = event.field("response");
                self.delta([("role", "assistant".into()), ("content", "".into())]);
            }
            "response.output_text.delta" => {
                self.begin(place, "message");
                let logprobs = event.list("logprobs");
                self.delta([("content", delta())]);
                if let (false, Some(chunk)) = (logprobs.is_empty(), self.ready.last()) {
                    // The object is new, so it accepts any value.
                    chunk.at_path("choices.0").edit("logprobs", Json::from([("content", logprobs.into())]));
                }
            }
            "response.output_text.annotation.added" => {
                let source = answer::annotation(&event.field("annotation"));
                self.delta([("annotations", vec![source].into())]);
            }
            "response.refusal.delta" => {
                self.begin(place, "message");
                self.delta([("refusal", delta())]);
            }
            "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning.delta" => {
                self.begin(place, "reasoning");
                let index =
                    ["summary_index", "content_index"].into_iter().find_map(|key| event.get(key)?.as_i64());
                self.think((place, index.unwrap_or(0)), &event.text_or_empty("delta"));
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
            "response.completed" | "response.incomplete" => {
                self.complete(&event.field("response"));
                self.end(&event.field("response"));
            }
            // The other events repeat this content, or report the progress of a hosted tool.
            _ => {}
        }
    }

    fn added(&mut self, place: i64, item: &Json) {
        if item.is_text("type", MESSAGE) {
            self.begin_message(place, item);
        }
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

    /// Separates a message from the one before it, and keeps its phase.
    fn begin_message(&mut self, place: i64, item: &Json) {
        let phase = phase_of(item);
        let has_others = self.message.replace(place).is_some_and(|before| before != place);
        if phase.is_some() || has_others {
            self.block(beginning(phase));
        }
    }

    /// Records that the content of an item arrives in chunks.
    fn begin(&mut self, place: i64, kind: &str) {
        self.streamed_items.insert(place);
        self.kinds.insert(kind.into());
    }

    /// Completes an item: content that did not arrive in chunks is added now.
    fn done(&mut self, place: i64, item: &Json) {
        let has_come = self.streamed_items.contains(&place);
        let kind = item.text_or_empty("type");
        self.kinds.insert(kind.clone());
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
                if self.message != Some(place) {
                    self.begin_message(place, item);
                }
                for part in item.list("content") {
                    for (key, field) in [("text", "content"), ("refusal", "refusal")] {
                        if let Some(text) = part.given(key) {
                            self.delta([(field, text)]);
                        }
                    }
                    let sources: Vec<Json> =
                        part.list("annotations").iter().map(answer::annotation).collect();
                    if !sources.is_empty() {
                        self.delta([("annotations", sources.into())]);
                    }
                }
            }
            "reasoning" => {
                if let (false, Some(text)) = (has_come, answer::shown(item)) {
                    self.think((place, 0), &text);
                }
                if let Some(item) = answer::opaque(item) {
                    self.block(item);
                }
            }
            _ => self.block(item.clone()),
        }
    }

    /// Adds thoughts at a position. Each part of a summary is a paragraph.
    fn think(&mut self, now: (i64, i64), text: &str) {
        let is_next = self.thought.replace(now).is_some_and(|before| before != now);
        let text = if is_next { [TEXT_BREAK, text].concat() } else { text.to_owned() };
        self.delta([("reasoning_content", text.into())]);
    }

    /// Adds the items of the last event whose types no event had before: some services send the answer only there.
    fn complete(&mut self, response: &Json) {
        let before = std::mem::take(&mut self.kinds);
        // The places in the stream may be others.
        self.streamed_items.clear();
        if self.head.is_null() {
            self.head = response.clone();
        }
        for (place, item) in response.list("output").iter().enumerate() {
            if !before.contains(&item.text_or_empty("type")) {
                self.done(place as i64, item);
            }
        }
    }

    fn block(&mut self, item: Json) {
        let block = items::block(item, self.calls.len());
        self.delta([(CONTENT_BLOCKS, vec![block].into())]);
    }

    fn end(&mut self, response: &Json) {
        self.is_over = true;
        let reason = answer::finish_reason(response, !self.calls.is_empty());
        self.chunk(Json::object(), reason.into());
        if let Some(usage) = usage::read(response).filter(|_| self.with_usage) {
            let mut fields = answer::head(&self.head, "chat.completion.chunk");
            fields.extend([("choices", Json::array()), ("usage", usage)]);
            self.ready.push(Json::from_fields(fields));
        }
    }

    fn delta<const N: usize>(&mut self, delta: [(&str, Json); N]) {
        self.chunk(Json::from(delta), Json::Null);
    }

    fn chunk(&mut self, delta: Json, reason: Json) {
        let choice = [("index", CHOICE.into()), ("delta", delta), ("finish_reason", reason)];
        let mut fields = answer::head(&self.head, "chat.completion.chunk");
        fields.push(("choices", vec![Json::from(choice)].into()));
        self.ready.push(Json::from_fields(fields));
    }
}

/// Returns `true` for an item that calls a tool of the client.
fn is_call(item: &Json) -> bool {
    matches!(&*item.text_or_empty("type"), "function_call" | "custom_tool_call")
}

/// The index of the only choice.
const CHOICE: i64 = 0;
