//! The order of the items of a model's turn, which its message keeps in blocks: texts, thoughts, calls and the items that
//! only their service can read.

use compact_str::CompactString;
use valvehouse_core::chat::content_blocks::Seal;
use valvehouse_core::chat::items;
use valvehouse_json::Json;

/// The type of an item that begins a message. As a block, it has no text.
pub(super) const MESSAGE: &str = "message";
/// The values of `phase`, which says whether a message is the answer or comments on the work.
const PHASES: [&str; 2] = ["commentary", "final_answer"];

/// Returns the phase of a message; other values could hide a text from filters.
pub(super) fn phase_of(item: &Json) -> Option<&'static str> {
    let phase = item.text("phase")?;
    PHASES.into_iter().find(|known| *known == phase)
}

/// Returns the item that begins a message.
pub(super) fn beginning(phase: Option<&'static str>) -> Json {
    let phase = phase.map(|phase| ("phase", phase.into()));
    Json::from_fields([("type", MESSAGE.into())].into_iter().chain(phase))
}

enum Part {
    Text(Json, Option<&'static str>),
    Thought(String),
    Call(CompactString),
    Item(Json),
}

/// The items of a turn in their order.
#[derive(Default)]
pub(super) struct ItemOrder {
    parts: Vec<Part>,
    calls: usize,
    has_text: bool,
    /// Set if the order is another than items, text, calls, or if a message has a phase.
    is_unusual: bool,
}

impl ItemOrder {
    /// Adds the text of a message.
    pub(super) fn text(&mut self, text: Json, phase: Option<&'static str>) {
        self.is_unusual |= self.has_text || self.calls > 0 || phase.is_some();
        self.has_text = true;
        self.parts.push(Part::Text(text, phase));
    }

    /// Adds thoughts that others can read.
    pub(super) fn thought(&mut self, text: &str) {
        self.parts.push(Part::Thought(text.to_owned()));
    }

    /// Adds a call.
    pub(super) fn call(&mut self, id: CompactString) {
        self.calls += 1;
        self.parts.push(Part::Call(id));
    }

    /// Adds an item that only its service can read.
    pub(super) fn item(&mut self, item: Json) {
        self.is_unusual |= self.has_text || self.calls > 0;
        self.parts.push(Part::Item(item));
    }

    /// Returns the blocks of the message: all of them if the order is unusual, otherwise the items. With `others`, the
    /// blocks of another service hold the order.
    pub(super) fn blocks(self, has_others: bool) -> Vec<Json> {
        let is_whole = self.is_unusual && !has_others;
        let (mut blocks, mut calls) = (Vec::new(), 0);
        let sealed = |kind: &str, text: &str, index: usize| {
            let block = Json::from([("type", kind.into()), ("index", index.into())]);
            Seal::of(text).put_on(&block);
            block
        };
        for (index, part) in self.parts.into_iter().enumerate() {
            match part {
                Part::Item(item) => blocks.push(items::block(item, calls)),
                Part::Call(id) => {
                    calls += 1;
                    if is_whole {
                        blocks.push(Json::from([
                            ("type", "tool_use".into()),
                            ("id", id.into()),
                            ("index", index.into()),
                        ]));
                    }
                }
                Part::Text(text, phase) if is_whole => {
                    blocks.push(items::block(beginning(phase), calls));
                    blocks.push(sealed("text", text.str_or_empty(), index));
                }
                Part::Thought(text) if is_whole => blocks.push(sealed("thinking", &text, index)),
                Part::Text(..) | Part::Thought(_) => {}
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use crate::responses::{answer, request};
    use crate::service::KnownService;
    use valvehouse_json::Json;

    const OUTPUT: &str = r#"[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"E1"},
        {"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Looking"}]},
        {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
        {"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"E2"},
        {"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},
        {"type":"web_search_call","id":"ws_1"},
        {"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Done"}]}]"#;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    /// Returns what tells the items of a chat request apart that is sent to OpenAI.
    fn sent(chat: &Json) -> Vec<String> {
        let sent = request::write(chat, false, KnownService::of("api.openai.com", "")).unwrap();
        let keys = ["phase", "call_id", "encrypted_content", "id"];
        let told = |item: &Json| keys.iter().map(|key| item.string(key)).collect::<Vec<_>>().concat();
        sent.list("input").iter().map(|item| format!("{} {}", item.string("type"), told(item))).collect()
    }

    #[test]
    fn a_turn_goes_back_in_its_order_with_its_phases() {
        let response = json(&format!(r#"{{"status":"completed","output":{OUTPUT}}}"#));
        let message = answer::read(&response).unwrap().at_path("choices.0.message");
        let chat = Json::from([("model", "m".into()), ("messages", vec![message].into())]);
        let expected = [
            "reasoning E1rs_1",
            "message commentary",
            "function_call c1",
            "reasoning E2rs_2",
            "function_call c2",
            "web_search_call ws_1",
            "message final_answer",
        ];
        assert_eq!(sent(&chat), expected);
        // The items of a client may have ids of this host, which do not belong to encrypted content.
        let items = json(&format!(r#"{{"model":"m","input":{OUTPUT}}}"#));
        let expected = expected.map(|told| told.replace("rs_1", "").replace("rs_2", ""));
        assert_eq!(sent(&request::read(items, Vec::new()).unwrap().chat), expected);
    }
}
