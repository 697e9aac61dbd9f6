//! The extras that a service sent with one answer, and their return to its message.

use std::sync::Arc;
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::chat::event::REASONING;
use valvehouse_core::chat::items;
use valvehouse_json::{Json, Object};
use valvehouse_wire::messages;

/// The fields of a message besides its thinking that services expect back: those of Gemini and of OpenRouter.
pub(super) const OPAQUE: [&str; 2] = ["extra_content", "reasoning_details"];
/// The fields of a call that each client returns.
const OF_CALLS: [&str; 5] = ["id", "type", "function", "custom", "index"];

/// Fields with their names.
type Fields = Vec<(String, Json)>;

/// The extras of an answer and the number of a call in it, if they are known.
pub(super) type CallPlace = Option<(Arc<Extra>, usize)>;

/// The extras that a service sent with one answer.
#[derive(Debug, Default)]
pub(super) struct Extra {
    fields: Fields,
    /// The further fields of each call.
    calls: Vec<Fields>,
    /// The number of blocks that the service signed or encrypted.
    signed: usize,
    /// The digest of the text, for an answer without calls.
    pub(super) text: u64,
}

impl Extra {
    /// Returns the extras of a message; `None` if it has none that its service expects back. Most services expect plain
    /// thinking of calls only.
    pub(super) fn of(message: &Json, calls: &[Json], keeps_thoughts: bool) -> Option<Self> {
        let signed = signed(message);
        let is_opaque = |key: &str| signed > 0 || OPAQUE.contains(&key);
        let names = REASONING.into_iter().chain(OPAQUE).chain([CONTENT_BLOCKS]);
        let names = names.filter(|key| keeps_thoughts || !calls.is_empty() || is_opaque(key));
        let fields = names.filter_map(|key| {
            let value = message.get(key).filter(|value| !value.is_empty())?;
            let value = if key == CONTENT_BLOCKS { thinking_blocks(&value) } else { value.deep_clone() };
            Some((key.to_owned(), value)).filter(|(_, value)| !value.is_empty())
        });
        let fields = fields.collect();
        let extra = Self { fields, calls: calls.iter().map(further).collect(), signed, text: 0 };
        let is_empty = extra.fields.is_empty() && extra.calls.iter().all(Vec::is_empty);
        (!is_empty).then_some(extra)
    }

    /// Returns a message with the missing extras; `None` if none is missing. `found` has the extras of each call.
    pub(super) fn put_on(&self, message: &Json, calls: &[Json], found: &[CallPlace]) -> Option<Json> {
        let mut is_changed = false;
        let mut fields = message.entries();
        let is_signed = self.signed > signed(message);
        if is_signed {
            fields.retain(|(key, _)| key != CONTENT_BLOCKS && !REASONING.contains(&key.as_str()));
        }
        let has_thinking = REASONING.iter().any(|key| message.get(key).is_some_and(|own| !own.is_empty()));
        for (key, value) in &self.fields {
            let is_missing = match key.as_str() {
                CONTENT_BLOCKS => is_signed,
                key if REASONING.contains(&key) => {
                    is_signed || !has_thinking && (self.signed == 0 || !calls.is_empty())
                }
                key => message.get(key).is_none_or(|own| own.is_empty()),
            };
            if is_missing {
                is_changed = true;
                let value = match key == CONTENT_BLOCKS {
                    true => merged(value, message.list(CONTENT_BLOCKS)),
                    false => value.deep_clone(),
                };
                fields.retain(|(own, _)| own != key);
                fields.push((key.into(), value));
            }
        }
        let whole: Vec<Json> =
            calls.iter().zip(found).map(|(call, found)| with_fields(call, found)).collect();
        if whole.iter().zip(calls).any(|(new, old)| !new.ptr_eq(old)) {
            is_changed = true;
            let own = fields.iter_mut().filter(|(key, _)| key == "tool_calls");
            own.for_each(|(_, own)| *own = whole.clone().into());
        }
        is_changed.then(|| fields.into_iter().collect::<Object>().into())
    }

    pub(super) fn size(&self) -> usize {
        let fields = self.fields.iter().chain(self.calls.iter().flatten());
        fields.map(|(key, value)| key.len() + value.size_estimate()).sum()
    }
}

/// Returns the fields of a call that clients may not return.
pub(super) fn further(call: &Json) -> Fields {
    let others = call.entries().into_iter();
    let others = others.filter(|(key, value)| !OF_CALLS.contains(&key.as_str()) && !value.is_empty());
    others.map(|(key, value)| (key.into(), value.deep_clone())).collect()
}

/// Returns a call with its missing fields; the same call if there are none.
fn with_fields(call: &Json, found: &CallPlace) -> Json {
    let missing = found.iter().flat_map(|(extra, at)| extra.calls.get(*at)).flatten();
    let missing: Vec<_> = missing.filter(|(key, _)| call.get(key).is_none_or(|own| own.is_empty())).collect();
    if missing.is_empty() {
        return call.clone();
    }
    let own = call.entries().into_iter().filter(|(key, _)| missing.iter().all(|(name, _)| name != key));
    own.chain(missing.iter().map(|(key, value)| (key.into(), value.deep_clone()))).collect::<Object>().into()
}

/// Returns the number of blocks of a message that its service signed or encrypted.
pub(super) fn signed(message: &Json) -> usize {
    if message.get(CONTENT_BLOCKS).is_none() {
        return 0;
    }
    let is_reasoning = |item: &Json| item.is_text("type", "reasoning");
    let items = items::of(message);
    messages::signed_blocks(message) + items.iter().filter(|item| is_reasoning(item)).count()
}

/// Returns `true` for a block of thinking.
fn is_thinking(block: &Json) -> bool {
    match &*block.text_or_empty("type") {
        "thinking" | "redacted_thinking" => true,
        items::ITEM => block.at_path("item.type").as_str() == Some("reasoning"),
        _ => false,
    }
}

/// Returns the blocks of the thinking, with the places and seals of the others: what a service ran or cited is for
/// the client and its filters to return.
fn thinking_blocks(blocks: &Json) -> Json {
    let blocks = blocks.items().into_iter().map(|block| {
        if is_thinking(&block) {
            return block.deep_clone();
        }
        let seal = ["type", "index", "length", "digest", "id"];
        let own = block.entries().into_iter().filter(|(key, _)| seal.contains(&key.as_str()));
        own.collect::<Object>().into()
    });
    blocks.collect::<Vec<_>>().into()
}

/// Returns the blocks of a message with the thinking that its service sent, at its places between the others.
pub(super) fn merged(sent: &Json, own: Vec<Json>) -> Json {
    let mut own = own.into_iter().filter(|block| !is_thinking(block)).peekable();
    let has_own = own.peek().is_some();
    let mut all = Vec::new();
    for block in sent.items() {
        match &*block.text_or_empty("type") {
            _ if is_thinking(&block) => all.push(block.deep_clone()),
            _ if has_own => all.extend(own.next()),
            "text" | "tool_use" => all.push(block.deep_clone()),
            _ => {}
        }
    }
    all.extend(own);
    all.into()
}
