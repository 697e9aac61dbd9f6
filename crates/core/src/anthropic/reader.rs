//! A streamed answer of Anthropic's as chunks of a chat.

use super::ending;
use super::extra::{ONLY_ANTHROPIC, others};
use super::incoming::Incoming;
use crate::chat::Head;
use valvehouse_json::Json;

/// Reads a stream's events, one after the other, into `chat.completion.chunk`s. Pings and errors are
/// nobody's chunk; who reads the stream sees the errors first.
///
/// ```
/// use valvehouse_core::anthropic::Reader;
/// use valvehouse_json::Json;
/// let event = |text: &str| Json::parse(text.as_bytes()).unwrap();
/// let mut reader = Reader::default();
/// reader.read(&event(r#"{"type":"message_start","message":{"id":"msg_1","model":"claude","usage":{}}}"#));
/// let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#;
/// let chunks = reader.read(&event(delta));
/// assert_eq!(chunks[0].at_path("choices.0.delta.content"), Json::from("hi"));
/// ```
#[derive(Debug, Default)]
pub struct Reader {
    head: Option<Head>,
    with_usage: bool,
    with_first_usage: bool,
    blocks: Incoming,
    counts: Option<Json>,
    ended: bool,
}

impl Reader {
    /// The same with a last chunk of usage, for those who asked for it.
    #[must_use]
    pub fn with_usage(mut self, wanted: bool) -> Self {
        self.with_usage = wanted;
        self
    }

    /// The same with the counts of the beginning in the first chunk, under `anthropic`, for clients of Anthropic's.
    #[must_use]
    pub fn with_first_usage(mut self, wanted: bool) -> Self {
        self.with_first_usage = wanted;
        self
    }

    /// The chunks that an event is.
    pub fn read(&mut self, event: &Json) -> Vec<Json> {
        let kind = event.text_or_empty("type");
        let index = event.get("index").and_then(|index| index.as_i64()).unwrap_or(0);
        let part = |key: &str| event.field(key);
        match &*kind {
            "message_start" => self.start(&part("message")),
            "content_block_start" => {
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

    /// Returns `true` if the answer has said why it ended: nothing that matters follows.
    pub fn is_complete(&self) -> bool {
        self.ended
    }

    /// Some services begin a message twice; it is still the same one.
    fn start(&mut self, message: &Json) -> Vec<Json> {
        self.count(&message.field("usage"));
        if self.head.is_some() {
            return Vec::new();
        }
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
        // Copies, in an object just made, here and below.
        for (key, value) in others(message, &known) {
            chunk.put(&key, value);
        }
        if let Some(usage) = message.get("usage").filter(|usage| self.with_first_usage && !usage.is_empty()) {
            chunk.put(ONLY_ANTHROPIC, Json::from([("usage", usage.copy())]));
        }
        vec![chunk]
    }

    fn end(&mut self, event: &Json) -> Vec<Json> {
        let said = event.field("delta");
        self.count(&event.field("usage"));
        if self.ended || said.text("stop_reason").is_none() {
            return Vec::new();
        }
        self.ended = true;
        let deltas = self.blocks.end_all();
        let mut chunks = self.chunks(deltas);
        let head = self.head();
        let last = head.chunk(Json::object(), None);
        ending::put_on_choice(&last.at_path("choices.0"), &said);
        let beside = others(&said, &["stop_reason", "stop_sequence", "stop_details"]);
        for (key, value) in others(event, &["type", "delta", "usage"]).into_iter().chain(beside) {
            last.put(&key, value);
        }
        chunks.push(last);
        if let (true, Some(counts)) = (self.with_usage, &self.counts) {
            chunks.push(head.usage_chunk(ending::usage(counts)));
        }
        chunks
    }

    fn count(&mut self, counts: &Json) {
        ending::update(self.counts.get_or_insert_with(Json::object), counts);
    }

    fn chunks(&mut self, deltas: Vec<Json>) -> Vec<Json> {
        if deltas.is_empty() {
            return Vec::new();
        }
        let head = self.head();
        deltas.into_iter().map(|delta| head.chunk(delta, None)).collect()
    }

    /// A service that forgot to begin its message has a message all the same.
    fn head(&mut self) -> Head {
        self.head.get_or_insert_with(|| Head::new("")).clone()
    }
}
