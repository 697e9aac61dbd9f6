//! The events of Anthropic's stream in their wire format, and the tool calls of a streamed response as they are
//! assembled from deltas.

use crate::messages::part::{others, with_others};
use compact_str::CompactString;
use valvehouse_core::chat::ONLY_ANTHROPIC;
use valvehouse_core::chat::delta::{call_name, is_custom};
use valvehouse_json::Json;

/// Events that wait to be sent, and the number of completed blocks.
#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: Vec<Json>,
    count: usize,
}

impl Events {
    pub(super) fn take(&mut self) -> Vec<Json> {
        std::mem::take(&mut self.waiting)
    }

    /// Emits `message_start` for the first chunk.
    ///
    /// The usage is that of an Anthropic provider or, for one that counts at the end, the estimate.
    pub(super) fn begin(&mut self, chunk: &Json, estimate: usize) {
        let counted = chunk.get(ONLY_ANTHROPIC).and_then(|own| own.get("usage"));
        let usage = counted.filter(|usage| !usage.is_empty()).unwrap_or_else(|| {
            Json::from([("input_tokens", estimate.into()), ("output_tokens", 0_i64.into())])
        });
        let message = with_others(
            [
                ("id", chunk.field("id")),
                ("type", "message".into()),
                ("role", "assistant".into()),
                ("model", chunk.field("model")),
                ("content", Json::array()),
                ("stop_reason", Json::Null),
                ("stop_sequence", Json::Null),
                ("usage", usage),
            ],
            others(chunk, &["id", "object", "created", "model", "choices", "usage", ONLY_ANTHROPIC]),
        );
        self.waiting.push(Json::from([("type", "message_start".into()), ("message", message)]));
    }

    /// Emits `message_delta` and `message_stop`.
    pub(super) fn end(&mut self, stop: Json, counts: Json, beside: Vec<(CompactString, Json)>) {
        let end = [("type", "message_delta".into()), ("delta", stop), ("usage", counts)];
        self.waiting.push(with_others(end, beside));
        self.waiting.push(Json::from([("type", "message_stop".into())]));
    }

    /// Emits `content_block_start`.
    pub(super) fn start(&mut self, block: Json) {
        self.of_block("content_block_start", "content_block", block);
    }

    pub(super) fn start_text(&mut self) {
        self.start(Json::from([("type", "text".into()), ("text", "".into())]));
    }

    pub(super) fn start_thinking(&mut self) {
        let block = [("type", "thinking".into()), ("thinking", "".into()), ("signature", "".into())];
        self.start(Json::from(block));
    }

    /// Emits a delta of text or thinking.
    pub(super) fn text_delta(&mut self, kind: &str, text: &str) {
        match kind {
            "text" => self.delta("text_delta", "text", text.into()),
            _ => self.delta("thinking_delta", "thinking", text.into()),
        }
    }

    /// Emits a delta of a tool call's input.
    pub(super) fn input(&mut self, chunk: &str) {
        if !chunk.is_empty() {
            self.delta("input_json_delta", "partial_json", chunk.into());
        }
    }

    /// Emits a `content_block_delta` of the given type.
    pub(super) fn delta(&mut self, kind: &str, key: &str, value: Json) {
        let delta = Json::from([("type", kind.into()), (key, value)]);
        self.of_block("content_block_delta", "delta", delta);
    }

    /// Emits `content_block_stop`.
    pub(super) fn stop(&mut self) {
        let event = [("type", "content_block_stop".into()), ("index", self.count.into())];
        self.waiting.push(Json::from(event));
        self.count += 1;
    }

    /// Emits a complete block; the input of a tool call is sent in one delta.
    pub(super) fn whole(&mut self, block: &Json) {
        let block = block.deep_clone();
        let input = block.get("input").filter(|input| !input.is_empty());
        if input.is_some() {
            // The key exists in the object, so the write cannot fail.
            block.edit("input", Json::object());
        }
        self.start(block);
        if let Some(input) = input {
            self.input(&input.to_string());
        }
        self.stop();
    }

    fn of_block(&mut self, kind: &str, key: &str, value: Json) {
        let event = [("type", kind.into()), ("index", self.count.into()), (key, value)];
        self.waiting.push(Json::from(event));
    }
}

/// The tool calls of the response so far.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Calling>);

#[derive(Debug)]
struct Calling {
    index: i64,
    id: CompactString,
    name: CompactString,
    beside: Vec<(CompactString, Json)>,
    arguments: String,
    /// Set for free-form text, which is sent once it is complete: Anthropic's inputs are objects.
    is_custom: bool,
    /// Set once `content_block_start` was sent.
    begun: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a delta. Returns the position of its call and the new part of the arguments.
    pub(super) fn take(&mut self, place: usize, chunk: &Json) -> (usize, CompactString) {
        let is_custom = is_custom(chunk);
        let function = chunk.field("function");
        let more = match function.get("arguments") {
            _ if is_custom => chunk.at_path("custom.input").str_or_empty().into(),
            Some(Json::Text(text)) => text.into(),
            None | Some(Json::Null) => CompactString::default(),
            Some(value) => value.to_string().into(),
        };
        let at = self.find(chunk).unwrap_or_else(|| {
            let id = chunk.text("id").filter(|id| !id.is_empty());
            self.0.push(Calling {
                index: chunk.integer("index").unwrap_or(place as i64),
                id: id.unwrap_or_else(|| format!("toolu_{}", uuid::Uuid::new_v4().simple()).into()),
                name: call_name(chunk),
                beside: others(chunk, &["index", "id", "type", "function", "custom"]),
                arguments: String::new(),
                is_custom,
                begun: false,
            });
            self.0.len() - 1
        });
        self.0[at].arguments.push_str(&more);
        (at, more)
    }

    /// Returns the call that a delta continues: the last one with its index, unless the delta begins another
    /// call. Without an index, a name begins the next call.
    fn find(&self, chunk: &Json) -> Option<usize> {
        let index = chunk.integer("index");
        let id = chunk.text_or_empty("id");
        let name = call_name(chunk);
        let at = self.0.iter().rposition(|call| index.is_none_or(|index| index == call.index))?;
        let is_same = id == self.0[at].id;
        let goes_on = match index {
            Some(_) => id.is_empty() || is_same || name.is_empty(),
            None => is_same || name.is_empty(),
        };
        goes_on.then_some(at)
    }

    /// Returns `true` if a call's block may start: all earlier calls are complete. A block cannot continue
    /// after it was stopped.
    pub(super) fn may_begin(&self, at: usize) -> bool {
        !self.0[at].begun
            && !self.0[at].is_custom
            && (0..at).all(|before| self.0[before].begun && self.is_whole(before))
    }

    /// Returns `true` if all arguments of a call have arrived.
    pub(super) fn is_whole(&self, at: usize) -> bool {
        matches!(Json::parse(self.0[at].arguments.as_bytes()), Ok(Json::Object(_)))
    }

    /// Returns the first call whose block has not started.
    pub(super) fn next_waiting(&self) -> Option<usize> {
        self.0.iter().position(|call| !call.begun)
    }

    /// Returns a call's block at its start, and its arguments so far.
    pub(super) fn begin(&mut self, at: usize) -> (Json, String) {
        let call = &mut self.0[at];
        call.begun = true;
        let fields = [
            ("type", "tool_use".into()),
            ("id", call.id.clone().into()),
            ("name", call.name.clone().into()),
            ("input", Json::object()),
        ];
        let input = match call.is_custom {
            true => Json::from([("input", call.arguments.clone().into())]).to_string(),
            false => call.arguments.clone(),
        };
        (with_others(fields, std::mem::take(&mut call.beside)), input)
    }
}
