//! Conversion of Anthropic's stream to chat chunks.
//!
//! Blocks become deltas. A block is remembered if the deltas alone cannot restore it: it has a signature or a
//! citation, is a server-side tool call, or deviates from the order thinking, text, calls.

use crate::answer_error::{AnswerError, is_error};
use crate::messages::blocks::check_call;
use crate::messages::part::{others, with_others};
use crate::messages::{cite, stop_reason};
use crate::stream_reader::{ServiceEvent, StreamReader};
use std::collections::VecDeque;
use valvehouse_core::chat::content_blocks::Seal;
use valvehouse_core::chat::message::TEXT_BREAK;
use valvehouse_core::chat::{CONTENT_BLOCKS, Head, ONLY_ANTHROPIC};
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// Converts the events of Anthropic's stream, one by one, to `chat.completion.chunk`s. Pings and errors produce
/// no chunk; the caller handles errors first.
///
/// ```
/// use valvehouse_wire::messages::stream::MessagesReader;
/// use valvehouse_json::Json;
/// let event = |text: &str| Json::parse(text.as_bytes()).unwrap();
/// let mut reader = MessagesReader::default();
/// reader.read(&event(r#"{"type":"message_start","message":{"id":"msg_1","model":"claude","usage":{}}}"#));
/// let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#;
/// let chunks = reader.read(&event(delta));
/// assert_eq!(chunks[0].at_path("choices.0.delta.content"), Json::from("hi"));
/// ```
#[derive(Debug, Default)]
pub struct MessagesReader {
    head: Option<Head>,
    with_usage: bool,
    with_first_usage: bool,
    blocks: DeltaConverter,
    counts: Option<Json>,
    /// The blocks of the first event, which has none unless a service sends the whole answer there.
    first: Vec<Json>,
    ended: bool,
    /// Set once `message_stop` was received.
    stopped: bool,
}

impl MessagesReader {
    /// Appends a final chunk with the usage, if `is_enabled`.
    #[must_use]
    pub fn with_usage(mut self, is_enabled: bool) -> Self {
        self.with_usage = is_enabled;
        self
    }

    /// Adds the initial token counts to the first chunk under `anthropic`, if `is_enabled`, for Anthropic clients.
    #[must_use]
    pub fn with_first_usage(mut self, is_enabled: bool) -> Self {
        self.with_first_usage = is_enabled;
        self
    }

    /// Returns the chunks for an event, an empty list for events without content.
    pub fn read(&mut self, event: &Json) -> Vec<Json> {
        let kind = event.text_or_empty("type");
        let index = event.integer("index").unwrap_or(0);
        let part = |key: &str| event.field(key);
        match &*kind {
            "message_start" => self.start(&part("message")),
            "content_block_start" => {
                self.first.clear();
                let deltas = self.blocks.begin(index, &part("content_block"));
                self.chunks(deltas)
            }
            "content_block_delta" => {
                let deltas = self.blocks.grow(index, &part("delta"));
                self.chunks(deltas)
            }
            "content_block_stop" => {
                let deltas = self.blocks.end(index);
                self.chunks(deltas)
            }
            "message_delta" => self.end(event),
            _ => Vec::new(),
        }
    }

    /// Handles `message_start`. A repeated `message_start` continues the same message.
    fn start(&mut self, message: &Json) -> Vec<Json> {
        self.count(&message.field("usage"));
        if self.head.is_some() {
            return Vec::new();
        }
        self.first = message.list("content");
        let text = |key: &str| message.text_or_empty(key);
        let head = Head::with_id(text("id"), text("model"));
        let chunk = head.chunk(Json::from([("role", "assistant".into())]), None);
        self.head = Some(head);
        let known = [
            "id",
            "type",
            "role",
            "model",
            "content",
            "stop_reason",
            "stop_sequence",
            "usage",
            "stop_details",
        ];
        // The object is new and the values are copies, so this write and those below cannot fail.
        for (key, value) in others(message, &known) {
            chunk.put(&key, value);
        }
        if let Some(usage) = message.get("usage").filter(|usage| self.with_first_usage && !usage.is_empty()) {
            chunk.put(ONLY_ANTHROPIC, Json::from([("usage", usage.deep_clone())]));
        }
        vec![chunk]
    }

    fn end(&mut self, event: &Json) -> Vec<Json> {
        let delta = event.field("delta");
        self.count(&event.field("usage"));
        if self.ended || delta.text("stop_reason").is_none() {
            return Vec::new();
        }
        self.ended = true;
        let mut deltas = Vec::new();
        for (index, block) in (0..).zip(std::mem::take(&mut self.first)) {
            deltas.extend(self.blocks.begin(index, &block));
        }
        deltas.extend(self.blocks.end_all());
        let mut chunks = self.chunks(deltas);
        let head = self.head();
        let last = head.chunk(Json::object(), None);
        stop_reason::put_on_choice(&last.at_path("choices.0"), &delta);
        let beside = others(&delta, &["stop_reason", "stop_sequence", "stop_details"]);
        for (key, value) in others(event, &["type", "delta", "usage"]).into_iter().chain(beside) {
            last.put(&key, value);
        }
        chunks.push(last);
        if let (true, Some(counts)) = (self.with_usage, &self.counts) {
            chunks.push(head.usage_chunk(stop_reason::usage(counts)));
        }
        chunks
    }

    fn count(&mut self, counts: &Json) {
        if counts.is_empty() {
            return;
        }
        stop_reason::update(self.counts.get_or_insert_with(Json::object), counts);
    }

    fn chunks(&mut self, deltas: Vec<Json>) -> Vec<Json> {
        if deltas.is_empty() {
            return Vec::new();
        }
        let head = self.head();
        deltas.into_iter().map(|delta| head.chunk(delta, None)).collect()
    }

    /// Returns the head of the message, a new one if the provider sent no `message_start`.
    fn head(&mut self) -> Head {
        self.head.get_or_insert_with(|| Head::new("")).clone()
    }
}

impl StreamReader for MessagesReader {
    fn read_event(
        &mut self,
        event: ServiceEvent,
        out: &mut VecDeque<StreamChunk>,
    ) -> Result<(), AnswerError> {
        let ServiceEvent { name, json, .. } = event;
        if name.as_deref() == Some("error") || is_error(&json) {
            return Err(AnswerError::Sent(json));
        }
        self.stopped |= json.is_text("type", "message_stop");
        check_call(&json.field("content_block"))?;
        out.extend(self.read(&json).into_iter().map(StreamChunk::new));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stopped
    }

    fn is_complete(&self) -> bool {
        self.ended
    }

    /// A message with a stop reason is complete, even without a `message_stop`.
    fn end(&self) -> Option<AnswerError> {
        (!self.ended).then(|| AnswerError::Cut("the stream ended without a stop_reason".into()))
    }
}

/// Converts blocks to deltas in order.
#[derive(Debug, Default)]
pub(super) struct DeltaConverter {
    layout: Layout,
    open: Vec<Open>,
    calls: usize,
    /// The number of characters in all texts so far.
    letters: usize,
    /// The block of the last thinking.
    thought: Option<i64>,
}

/// A block that has not been stopped.
#[derive(Debug)]
struct Open {
    index: i64,
    /// The fields of the block except its text or input.
    block: Json,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The seal, and the number of characters in earlier texts.
    Text(Seal, usize),
    Thinking(Seal),
    Call {
        number: usize,
        begun: bool,
    },
    Other {
        input: String,
    },
}

impl DeltaConverter {
    /// Handles `content_block_start`; some providers send the complete block in it.
    pub(super) fn begin(&mut self, index: i64, block: &Json) -> Vec<Json> {
        let kind = block.text_or_empty("type");
        let (kind, rank, first) = match &*kind {
            "text" => (Kind::Text(Seal::default(), self.letters), Some(Rank::Text), "text"),
            "thinking" => (Kind::Thinking(Seal::default()), Some(Rank::Thinking), "thinking"),
            "tool_use" => {
                self.calls += 1;
                (Kind::Call { number: self.calls - 1, begun: false }, Some(Rank::Call), "input")
            }
            _ => (Kind::Other { input: String::new() }, None, ""),
        };
        let items = rank.into_iter().flat_map(|rank| self.layout.begin(rank)).collect();
        let mut deltas = remembered(items);
        let is_call = matches!(kind, Kind::Call { .. });
        let kept = if is_call { Json::from([("id", block.field("id"))]) } else { Json::object() };
        if !is_call {
            for (key, value) in others(block, &[first]) {
                // The object is new and the values are copies, so the write cannot fail.
                kept.edit(&key, value);
            }
        }
        self.open.push(Open { index, block: kept, kind });
        if let Kind::Call { number, .. } = self.open[self.open.len() - 1].kind {
            deltas.push(call(number, block));
        }
        match (first, block.get(first)) {
            ("input", Some(input @ Json::Object(_))) if !input.is_empty() => {
                deltas.extend(self.input(index, &input.to_string()));
            }
            ("text" | "thinking", Some(Json::Text(text))) => deltas.extend(self.text_delta(index, &text)),
            _ => {}
        }
        deltas
    }

    /// Handles `content_block_delta`.
    pub(super) fn grow(&mut self, index: i64, delta: &Json) -> Vec<Json> {
        let kind = delta.text_or_empty("type");
        let text = |key: &str| delta.text_or_empty(key);
        let begun = if self.open.iter().any(|open| open.index == index) {
            Vec::new()
        } else {
            // Some providers omit `content_block_start`.
            let kind = if kind == "thinking_delta" { "thinking" } else { "text" };
            self.begin(index, &Json::from([("type", kind.into())]))
        };
        let more = match &*kind {
            "text_delta" => self.text_delta(index, &text("text")),
            "thinking_delta" => self.text_delta(index, &text("thinking")),
            "input_json_delta" => self.input(index, &text("partial_json")),
            "citations_delta" => {
                self.add(index, "citations", delta.field("citation"));
                None
            }
            _ => {
                for (key, value) in others(delta, &["type"]) {
                    self.set(index, &key, value);
                }
                None
            }
        };
        begun.into_iter().chain(more).collect()
    }

    /// Handles `content_block_stop`.
    pub(super) fn end(&mut self, index: i64) -> Vec<Json> {
        let Some(at) = self.open.iter().position(|open| open.index == index) else { return Vec::new() };
        let Open { block, kind, .. } = self.open.remove(at);
        let item = |kind: &str| {
            with_others([("type", kind.into()), ("index", index.into())], others(&block, &["type"]))
        };
        let mut sources = Vec::new();
        let (item, is_plain) = match kind {
            Kind::Text(seal, from) => {
                let item = item(&block.text_or_empty("type"));
                sources = cite::annotations(&item, from..self.letters);
                let is_plain = others(&item, &["type", "index"]).iter().all(|(_, value)| value.is_empty());
                seal.put_on(&item);
                (item, is_plain)
            }
            Kind::Thinking(seal) => {
                let item = item(&block.text_or_empty("type"));
                let is_plain = others(&item, &["type", "index"]).iter().all(|(_, value)| value.is_empty());
                seal.put_on(&item);
                (item, is_plain)
            }
            Kind::Call { number, begun } => {
                let item = item("tool_use");
                let rest = (!begun).then(|| arguments(number, "{}"));
                self.layout.end_plain(item);
                return rest.into_iter().collect();
            }
            Kind::Other { input } => {
                if let Ok(input) = Json::parse(input.as_bytes()) {
                    block.edit("input", input);
                }
                // OpenAI clients match the elements of a streamed list by `index`.
                block.edit("index", index);
                (block, false)
            }
        };
        if is_plain {
            self.layout.end_plain(item);
            return Vec::new();
        }
        let mut deltas = remembered(self.layout.end(item));
        if !sources.is_empty() {
            deltas.push(Json::from([("annotations", sources.into())]));
        }
        deltas
    }

    /// Ends all open blocks at the end of the response.
    pub(super) fn end_all(&mut self) -> Vec<Json> {
        let open: Vec<i64> = self.open.iter().map(|open| open.index).collect();
        open.into_iter().flat_map(|index| self.end(index)).collect()
    }

    fn at(&mut self, index: i64) -> Option<&mut Open> {
        self.open.iter_mut().rfind(|open| open.index == index)
    }

    fn text_delta(&mut self, index: i64, text: &str) -> Option<Json> {
        if text.is_empty() {
            return None;
        }
        let letters = text.chars().count();
        let (key, seal) = match &mut self.at(index)?.kind {
            Kind::Text(seal, _) => ("content", seal),
            Kind::Thinking(seal) => ("reasoning_content", seal),
            _ => return None,
        };
        seal.add(text);
        if key == "content" {
            self.letters += letters;
            return Some(Json::from([(key, text.into())]));
        }
        // Chats have one text for all thinking. Filters judge each block by itself.
        let is_next = self.thought.replace(index).is_some_and(|last| last != index);
        let text = if is_next { [TEXT_BREAK, text].concat() } else { text.to_owned() };
        Some(Json::from([(key, text.into())]))
    }

    fn input(&mut self, index: i64, chunk: &str) -> Option<Json> {
        if chunk.is_empty() {
            return None;
        }
        match &mut self.at(index)?.kind {
            Kind::Call { number, begun } => {
                *begun = true;
                Some(arguments(*number, chunk))
            }
            Kind::Other { input } => {
                input.push_str(chunk);
                None
            }
            _ => None,
        }
    }

    fn add(&mut self, index: i64, key: &str, value: Json) {
        let Some(open) = self.at(index) else { return };
        // The lists and objects were created here and the values are copies, so the write cannot fail.
        let _ = match open.block.get(key) {
            Some(Json::Array(list)) => list.push(value.deep_clone()),
            _ => open.block.set(key, vec![value.deep_clone()]),
        };
    }

    fn set(&mut self, index: i64, key: &str, value: Json) {
        let Some(open) = self.at(index) else { return };
        let value = match (open.block.get(key), value) {
            (Some(Json::Text(before)), Json::Text(more)) => format!("{before}{more}").into(),
            (_, value) => value,
        };
        open.block.edit(key, value);
    }
}

/// Returns a delta with remembered blocks.
fn remembered(items: Vec<Json>) -> Vec<Json> {
    if items.is_empty() { Vec::new() } else { vec![Json::from([(CONTENT_BLOCKS, items.into())])] }
}

/// Returns the delta that begins a tool call.
fn call(number: usize, block: &Json) -> Json {
    let name = block.field("name");
    let function = Json::from([("name", name), ("arguments", "".into())]);
    let fields = [
        ("index", number.into()),
        ("id", block.field("id")),
        ("type", "function".into()),
        ("function", function),
    ];
    let call = with_others(fields, others(block, &["type", "id", "name", "input"]));
    Json::from([("tool_calls", vec![call].into())])
}

fn arguments(number: usize, chunk: &str) -> Json {
    let function = Json::from([("arguments", chunk.into())]);
    let call = Json::from([("index", number.into()), ("function", function)]);
    Json::from([("tool_calls", vec![call].into())])
}

/// The kinds of blocks in their default order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Rank {
    #[default]
    Thinking,
    Text,
    Call,
}

/// The blocks so far that are remembered.
#[derive(Debug, Default)]
pub(super) struct Layout {
    rank: Rank,
    /// Blocks that are remembered only if a later block requires it.
    pending: Vec<Json>,
}

impl Layout {
    /// Starts a block. Returns the earlier blocks that now have to be remembered.
    pub(super) fn begin(&mut self, rank: Rank) -> Vec<Json> {
        let follows =
            self.pending.is_empty() || rank > self.rank || (rank, self.rank) == (Rank::Call, Rank::Call);
        let items = if follows { Vec::new() } else { std::mem::take(&mut self.pending) };
        self.rank = rank;
        items
    }

    /// Ends a block that does not have to be remembered.
    pub(super) fn end_plain(&mut self, item: Json) {
        self.pending.push(item);
    }

    /// Ends a block that has to be remembered.
    pub(super) fn end(&mut self, item: Json) -> Vec<Json> {
        self.pending.push(item);
        std::mem::take(&mut self.pending)
    }
}
