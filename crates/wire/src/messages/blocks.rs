//! The blocks of an assistant message in their original order: thinking, text and tool calls.

use super::part::{self, others, with_others};
use crate::answer_error::check_name;
use crate::calls;
use compact_str::CompactString;
use std::collections::{HashMap, VecDeque};
use valvehouse_core::chat::call::BadCall;
use valvehouse_core::chat::content_blocks::{BlockTexts, CONTENT_BLOCKS, SEAL};
use valvehouse_core::chat::items;
use valvehouse_json::Json;

/// Returns all blocks of an assistant message. A text that was changed since the model wrote it has its current
/// content, without citations; changed thinking has no signature.
pub(super) fn of_message(message: &Json) -> Vec<Json> {
    let items = message.list(CONTENT_BLOCKS);
    let thinking = BlockTexts::new("thinking", message, &items);
    let text = BlockTexts::new("text", message, &items);
    let refusal = message.text_or_empty("refusal");
    let mut building = Building { thinking, text, refusal, calls: Calls::of(message), blocks: Vec::new() };
    for item in &items {
        building.add(item);
    }
    building.finish()
}

/// Returns the number of blocks of thinking in a message that Anthropic accepts: unchanged and with a signature, or
/// redacted.
pub fn signed_blocks(message: &Json) -> usize {
    let is_signed = |block: &Json| match &*block.text_or_empty("type") {
        "thinking" => block.text("signature").is_some_and(|signature| !signature.is_empty()),
        kind => kind == "redacted_thinking",
    };
    of_message(message).iter().filter(|block| is_signed(block)).count()
}

/// Checks the name of the tool in a block that calls one.
pub(super) fn check_call(block: &Json) -> Result<(), BadCall> {
    if block.is_text("type", "tool_use") { check_name(block) } else { Ok(()) }
}

/// Returns a block without a text of its own, as the provider sent it.
pub(super) fn without_index(item: &Json) -> Json {
    let block = item.deep_clone();
    block.remove("index");
    block
}

struct Building {
    thinking: BlockTexts,
    text: BlockTexts,
    refusal: CompactString,
    calls: Calls,
    blocks: Vec<Json>,
}

impl Building {
    fn add(&mut self, item: &Json) {
        match &*item.text_or_empty("type") {
            "text" => {
                self.blocks.extend(self.text.added().and_then(|added| part::text_block(&added)));
                let (text, is_sealed) = self.text.take_next();
                if !is_sealed {
                    self.blocks.extend(part::text_block(&text));
                } else if !text.is_empty() {
                    let fields = [("type", "text".into()), ("text", text.into())];
                    self.blocks.push(with_others(fields, others(item, &SEAL)));
                }
            }
            "thinking" => {
                self.blocks.extend(self.thinking.added().and_then(|added| unsigned(&added)));
                let (text, is_sealed) = self.thinking.take_next();
                if !is_sealed {
                    self.blocks.extend(unsigned(&text));
                } else {
                    self.blocks.push(thinking(&text, others(item, &SEAL)));
                }
            }
            "tool_use" => {
                let id = item.text_or_empty("id");
                self.blocks.extend(self.calls.take(&id));
            }
            // Only the provider that sent the item reads it.
            items::ITEM => {}
            _ => self.blocks.push(without_index(item)),
        }
    }

    fn finish(mut self) -> Vec<Json> {
        self.blocks.extend(unsigned(&self.thinking.rest));
        self.blocks.extend(part::text_block(&self.text.rest));
        // Filters have judged it by itself.
        self.blocks.extend(part::text_block(&self.refusal));
        self.blocks.extend(self.calls.blocks.into_iter().flatten());
        self.blocks
    }
}

/// Creates a thinking block. Clients expect a signature, so a missing one is the empty string.
fn thinking(text: &str, others: Vec<(CompactString, Json)>) -> Json {
    let block = with_others([("type", "thinking".into()), ("thinking", text.into())], others);
    if block.get("signature").is_none() {
        // The block was created above, so the write cannot fail.
        block.edit("signature", "");
    }
    block
}

fn unsigned(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| thinking(text, Vec::new()))
}

/// The tool-call blocks that have not been placed yet.
#[derive(Default)]
struct Calls {
    blocks: Vec<Option<Json>>,
    /// The positions of the calls for each id; a provider may use an id several times.
    places: HashMap<CompactString, VecDeque<usize>>,
}

impl Calls {
    fn of(message: &Json) -> Self {
        let mut all = Self::default();
        for (call, input, given) in calls::with_objects(message) {
            let fields = [
                ("type", "tool_use".into()),
                ("id", id(&call.id).into()),
                ("name", call.name.into()),
                ("input", input),
            ];
            let beside = others(&given, &["id", "type", "function", "custom", "index"]);
            all.places.entry(call.id).or_default().push_back(all.blocks.len());
            all.blocks.push(Some(with_others(fields, beside)));
        }
        all
    }

    fn take(&mut self, id: &str) -> Option<Json> {
        let place = self.places.get_mut(id)?.pop_front()?;
        self.blocks.get_mut(place)?.take()
    }
}

/// Returns an id that Anthropic accepts: characters such as dots and colons are replaced.
pub(super) fn id(id: &str) -> CompactString {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    id.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}
