//! The events of Anthropic's stream, as they stand on the wire.

use super::extra::{ONLY_ANTHROPIC, others, with_others};
use compact_str::CompactString;
use valvehouse_json::Json;

/// Events that wait to be sent, and how many blocks have ended.
#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: Vec<Json>,
    count: usize,
}

impl Events {
    pub(super) fn take(&mut self) -> Vec<Json> {
        std::mem::take(&mut self.waiting)
    }

    /// The message begins, as the first chunk names it.
    ///
    /// Its usage is that of an Anthropic service or, where another one counts at the end, the estimate.
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

    /// The message ends.
    pub(super) fn end(&mut self, stop: Json, counts: Json, beside: Vec<(CompactString, Json)>) {
        let end = [("type", "message_delta".into()), ("delta", stop), ("usage", counts)];
        self.waiting.push(with_others(end, beside));
        self.waiting.push(Json::from([("type", "message_stop".into())]));
    }

    /// A block begins.
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

    /// More of the text or thinking.
    pub(super) fn say(&mut self, kind: &str, text: &str) {
        match kind {
            "text" => self.delta("text_delta", "text", text.into()),
            _ => self.delta("thinking_delta", "thinking", text.into()),
        }
    }

    /// More of the input.
    pub(super) fn input(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.delta("input_json_delta", "partial_json", piece.into());
        }
    }

    /// More of whatever it is.
    pub(super) fn delta(&mut self, kind: &str, key: &str, value: Json) {
        let delta = Json::from([("type", kind.into()), (key, value)]);
        self.of_block("content_block_delta", "delta", delta);
    }

    /// A block ends.
    pub(super) fn stop(&mut self) {
        let event = [("type", "content_block_stop".into()), ("index", self.count.into())];
        self.waiting.push(Json::from(event));
        self.count += 1;
    }

    /// A block that does not grow; an input grows in one piece.
    pub(super) fn whole(&mut self, block: &Json) {
        let block = block.copy();
        let input = block.get("input").filter(|input| !input.is_empty());
        if input.is_some() {
            // It takes the place of a value of the same object.
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
