//! The choices of a stream of OpenAI's chats. Services have habits that the host forwards where nobody looks, so other
//! tests check the form of the events.

use crate::generator::outcome::text_of;
use serde_json::Value;
use std::collections::BTreeMap;

/// A choice that is assembled from deltas.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct ReceivedChoice {
    pub(crate) content: String,
    pub(crate) reasoning_content: String,
    /// The other field of services for thinking.
    reasoning: String,
    pub(crate) refusal: String,
    pub(crate) annotations: Vec<Value>,
    /// The calls by place.
    pub(crate) calls: BTreeMap<u64, ReceivedCall>,
    /// The finish reasons in order.
    pub(crate) ends: Vec<String>,
}

/// A call that is assembled from deltas.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct ReceivedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: String,
    /// `true` if the tool takes free text.
    pub(crate) is_custom: bool,
}

/// Returns the choices that a client assembles, by index.
pub(crate) fn choices_of(events: &[Value]) -> BTreeMap<u64, ReceivedChoice> {
    let mut all: BTreeMap<u64, ReceivedChoice> = BTreeMap::new();
    // The index of the first call: some services count from one.
    let mut firsts: BTreeMap<u64, u64> = BTreeMap::new();
    for choice in events.iter().flat_map(|event| event["choices"].as_array().into_iter().flatten()) {
        let index = choice["index"].as_u64().unwrap_or(0);
        let first = choice["delta"]["tool_calls"][0]["index"].as_u64();
        let first = first.map_or(0, |first| *firsts.entry(index).or_insert(first));
        all.entry(index).or_default().add(choice, first);
    }
    all
}

impl ReceivedChoice {
    /// Adds a delta; `first` is the index of the first call.
    fn add(&mut self, choice: &Value, first: u64) {
        let delta = &choice["delta"];
        if choice.get("delta").is_none() {
            // The text up to this event.
            self.content = text_of(&choice["message"]["content"]);
        }
        self.content += &text_of(&delta["content"]);
        self.reasoning_content += &text_of(&delta["reasoning_content"]);
        self.reasoning += &text_of(&delta["reasoning"]);
        self.refusal += &text_of(&delta["refusal"]);
        self.annotations.extend(delta["annotations"].as_array().into_iter().flatten().cloned());
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = piece["index"].as_u64().expect("a call has an index");
            let call = self.calls.entry(index - first).or_default();
            call.is_custom |= piece.get("custom").is_some();
            call.id += &text_of(&piece["id"]);
            for (kind, key) in [("function", "arguments"), ("custom", "input")] {
                call.name += &text_of(&piece[kind]["name"]);
                call.input += &text_of(&piece[kind][key]);
            }
        }
        self.ends.extend(choice["finish_reason"].as_str().map(str::to_owned));
    }
}
