//! The content of an event in a choice, and the earlier texts that it ends.

use crate::chat::delta::call_name;
use crate::chat::event::{self, Step};
use compact_str::CompactString;
use std::collections::HashSet;
use valvehouse_json::{Json, Object};

/// The field of closed blocks, whose text has arrived before.
const BLOCKS: &str = "content_blocks";
/// The fields that hold a signature of thinking.
const SIGNATURES: [&str; 4] =
    ["signature", "reasoning_signature", "thinking_signature", "reasoning_content_signature"];
/// The fields of a delta whose text arrives in parts.
const GROWING: [&str; 10] = [
    "content",
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "thinking",
    "thinking_blocks",
    "refusal",
    "reasoning_details",
    "audio",
    "function_call",
];
/// The kind of texts that can be signed, and the group of their lanes.
const REASONING: &str = "reasoning";
/// The begin of the lanes of unknown fields. Their text may go on until the choice ends, whatever comes between.
pub(super) const UNKNOWN: char = '+';
/// The nested fields of a delta whose text arrives in parts.
const GROWING_BELOW: [&str; 8] =
    ["text", "thinking", "summary", "content", "reasoning", "transcript", "arguments", "refusal"];
/// The fields of an event that are not content.
const HEAD: [&str; 10] = [
    "id",
    "object",
    "created",
    "model",
    "system_fingerprint",
    "service_tier",
    "provider",
    "obfuscation",
    "p",
    "choices",
];

/// The content of an event in its first choice.
#[derive(Default)]
pub(super) struct Speech {
    /// The lanes that have text in this event.
    lanes: HashSet<CompactString>,
    begins_call: bool,
    signs: bool,
    /// Set if the event closes earlier blocks, whose text cannot continue.
    pub(super) closes: bool,
}

impl Speech {
    pub(super) fn of(event: &Json) -> Self {
        let mut speech = Self::default();
        let Some(Json::Object(delta)) = event::delta(event) else { return speech };
        let mut has_containers = false;
        delta.for_each(|key, value| match value {
            Json::Text(text) if text.is_empty() => {}
            Json::Text(_) if SIGNATURES.contains(&key) => speech.signs = true,
            Json::Text(_) if GROWING.contains(&key) => drop(speech.lanes.insert(key.into())),
            Json::Array(calls) if key == "tool_calls" => {
                speech.begins_call |=
                    calls.with(|calls| calls.iter().any(|call| !call_name(call).is_empty()));
            }
            Json::Array(_) if key == BLOCKS => speech.closes |= !value.is_empty(),
            Json::Array(items) if key == "reasoning_details" => {
                let signature = |item: &Json| item.text("signature").is_some_and(|own| !own.is_empty());
                speech.signs |= items.with(|items| items.iter().any(signature));
                has_containers = true;
            }
            Json::Array(_) | Json::Object(_) => has_containers |= GROWING.contains(&key),
            _ => {}
        });
        if has_containers {
            event::for_each_text(event, &mut |way, place| {
                if let [_, _, Step::Key(below), way @ ..] = way
                    && below == "delta"
                    && let Some(name) = lane_name(way)
                    && !place.text().is_empty()
                {
                    speech.lanes.insert(name);
                }
            });
        }
        speech
    }

    /// Returns `true` if the event ends an earlier text in a lane that has no text in this event.
    pub(super) fn ends(&self, lane: &str, kind: &str) -> bool {
        if lane.starts_with(UNKNOWN) {
            return false;
        }
        if self.closes || self.signs(kind) {
            return true;
        }
        self.speaks() && !self.lanes.contains(lane)
    }

    fn speaks(&self) -> bool {
        self.begins_call || !self.lanes.is_empty()
    }

    /// Returns the group of a lane: the lanes of one group can end by the same events.
    pub(super) fn group(lane: &str, kind: &str) -> &'static str {
        match kind {
            _ if lane.starts_with(UNKNOWN) => "unknown",
            REASONING => REASONING,
            _ => "spoken",
        }
    }

    /// Returns the groups of the lanes that the event can end.
    pub(super) fn ending_groups(&self) -> &'static [&'static str] {
        match (self.closes || self.speaks(), self.signs) {
            (true, _) => &[REASONING, "spoken"],
            (false, true) => &[REASONING],
            (false, false) => &[],
        }
    }

    /// Returns `true` if a text in this event also ends in it: thinking if the event has other text as well,
    /// and any text if the event begins a tool call.
    pub(super) fn follows(&self, kind: &str) -> bool {
        let is_thinking = |lane: &CompactString| {
            lane.split(['.', '#']).any(|part| part.starts_with("reasoning") || part.starts_with("thinking"))
        };
        self.begins_call || (kind == REASONING && self.lanes.iter().any(|lane| !is_thinking(lane)))
    }

    /// Returns `true` if the event signs texts of this kind.
    pub(super) fn signs(&self, kind: &str) -> bool {
        self.signs && kind == REASONING
    }
}

/// Returns the lane of a text in a delta: the path to it without list positions. A text and its parts have the
/// same lane. `None` for texts that arrive complete.
pub(super) fn lane_name(way: &[Step]) -> Option<CompactString> {
    let mut name = CompactString::default();
    for (place, step) in way.iter().enumerate() {
        match step {
            Step::Key(key) if place == 0 && !GROWING.contains(&key.as_str()) => return None,
            Step::Key(key) if place > 0 && !GROWING_BELOW.contains(&key.as_str()) => return None,
            Step::Key(key) if key == "text" && place > 0 && place + 1 == way.len() => {}
            Step::Key(key) => {
                name.push_str(if name.is_empty() { "" } else { "." });
                name.push_str(key);
            }
            Step::Item(_, Some(index)) => name.push_str(&format!("#{index}")),
            Step::Item(_, None) => {}
        }
    }
    Some(name)
}

/// Returns the lane of a text in an unknown field of a delta, and `true` if its text is sent at once: clients match the
/// elements of lists by their `index`, and most of these arrive complete. `None` for elements without one, which no
/// client joins, and for closed blocks.
pub(super) fn unknown_lane(way: &[Step]) -> Option<(CompactString, bool)> {
    let mut name = CompactString::from(String::from(UNKNOWN));
    let mut is_listed = false;
    for step in way {
        match step {
            Step::Key(key) if key == BLOCKS => return None,
            Step::Key(key) => name.push_str(&format!(".{key}")),
            Step::Item(_, index) => {
                name.push_str(&format!("#{}", (*index)?));
                is_listed = true;
            }
        }
    }
    Some((name, is_listed))
}

/// Returns `true` if an event has nothing for clients: one choice without content or end.
pub(super) fn is_hollow(event: &Json) -> bool {
    let Json::Object(fields) = event else { return false };
    let mut bare = true;
    fields.for_each(|key, value| bare = bare && (HEAD.contains(&key) || value.is_empty()));
    let choices = event.list("choices");
    let [Json::Object(choice)] = choices.as_slice() else { return false };
    bare && is_empty_except(choice, &|key, value| match key {
        "index" => true,
        "delta" | "logprobs" => is_empty_below(value),
        _ => value.is_empty(),
    })
}

fn is_empty_except(object: &Object, is_nothing: &dyn Fn(&str, &Json) -> bool) -> bool {
    let mut nothing = true;
    object.for_each(|key, value| nothing = nothing && is_nothing(key, value));
    nothing
}

fn is_empty_below(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.with(|items| items.iter().all(is_empty_below)),
        Json::Object(fields) => is_empty_except(fields, &|key, value| {
            matches!(key, "index" | "type" | "format") || is_empty_below(value)
        }),
        value => value.is_empty(),
    }
}
