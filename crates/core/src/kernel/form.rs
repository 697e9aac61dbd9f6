//! Normalization of streams for clients: one id, one role per choice, and tool calls that begin once and are
//! numbered from 0. Events that deviate are corrected; other events are sent with their original bytes.

use crate::chat::{call, delta, message};
use crate::provider::StreamChunk;
use compact_str::CompactString;
use std::collections::BTreeMap;
use valvehouse_json::Json;

/// The `object` of each event of a stream.
const CHUNK: &str = "chat.completion.chunk";

/// The head of a stream, as known so far.
#[derive(Default)]
pub(super) struct Form {
    id: CompactString,
    model: CompactString,
    /// The choices by index, in ascending order.
    choices: BTreeMap<i64, Choice>,
    /// Set if a filter has changed the event.
    edited: bool,
    /// For each choice by index, the text received as `message` without a delta; `None` if the choice is
    /// streamed in deltas.
    whole: BTreeMap<i64, Option<String>>,
}

#[derive(Default)]
struct Choice {
    calls: Vec<OpenCall>,
}

/// A tool call whose first delta was sent.
struct OpenCall {
    /// The index that the provider assigned.
    index: Option<i64>,
    id: CompactString,
    name: CompactString,
}

impl Form {
    /// Converts an event whose choices have no delta, or calls of the first version, because filters look for text in
    /// deltas and their tool calls.
    pub(super) fn as_deltas(&mut self, chunk: &mut StreamChunk) {
        for (place, choice) in chunk.event.list("choices").iter().enumerate() {
            if call::write_function_call(choice) {
                chunk.changed();
            }
            let index = choice.integer("index").unwrap_or(place as i64);
            let message = choice.get("message").filter(|message| message.as_object().is_some());
            let has_delta = choice.get("delta").is_some_and(|delta| delta.as_object().is_some());
            let (false, Some(message)) = (has_delta, message) else {
                self.whole.entry(index).or_default();
                continue;
            };
            let text = message::text_of(&message);
            let delta = match self.whole.get(&index) {
                None => message.deep_clone(),
                Some(Some(before)) => {
                    let rest = text.strip_prefix(before.as_str()).unwrap_or_default();
                    Json::from([("content", rest.into())])
                }
                // The message repeats the deltas before it.
                Some(None) => Json::object(),
            };
            if self.whole.get(&index) != Some(&None) {
                self.whole.insert(index, Some(text.into()));
            }
            choice.remove("message");
            set(choice, "delta", delta);
            chunk.changed();
        }
    }

    /// Records that a filter changed the event.
    pub(super) fn edited(&mut self) {
        self.edited = true;
    }

    /// Corrects an event in place.
    pub(super) fn normalize(&mut self, chunk: &mut StreamChunk) {
        let event = &chunk.event;
        let Some(Json::Array(choices)) = event.get("choices") else { return };
        let is_other = !event.is_text("object", CHUNK) && event.get("object").is_some();
        let mut changed = is_other && set(event, "object", CHUNK);
        if self.has_id() || !choices.is_empty() || event.text("id").is_some_and(|id| !id.is_empty()) {
            changed |= self.one_id(event);
        }
        choices.with(|choices| {
            for (place, choice) in choices.iter().enumerate() {
                changed |= self.normalize_choice(place, choice);
            }
        });
        if changed {
            chunk.changed();
        }
    }

    /// Returns `true` if the id of the stream is known; earlier events are held back.
    pub(super) fn has_id(&self) -> bool {
        !self.id.is_empty()
    }

    /// Adds the id and the model of the stream to an event that arrived before the id.
    pub(super) fn name(&self, chunk: &mut StreamChunk) {
        set(&chunk.event, "id", self.id.clone());
        if chunk.event.text("model").is_none_or(|model| model.is_empty()) {
            set(&chunk.event, "model", self.model.clone());
        }
        chunk.changed();
    }

    /// Returns the choices that have begun.
    pub(super) fn begun(&self) -> Vec<i64> {
        self.choices.keys().copied().collect()
    }

    /// Forgets the calls so far, which were not sent or belong to an earlier model call.
    pub(super) fn forget_calls(&mut self) {
        self.whole.clear();
        self.choices.values_mut().for_each(|choice| choice.calls.clear());
    }

    /// Sets the id of all events, including those of later model calls, to that of the first. If the provider
    /// sends none, the id is generated.
    fn one_id(&mut self, event: &Json) -> bool {
        let own = event.text_or_empty("id");
        if self.id.is_empty() {
            self.model = event.text_or_empty("model");
            self.id = match own.is_empty() {
                true => format!("chatcmpl-{}", uuid::Uuid::new_v4().simple()).into(),
                false => own.clone(),
            };
        }
        own != self.id && set(event, "id", self.id.clone())
    }

    fn normalize_choice(&mut self, place: usize, choice: &Json) -> bool {
        let Json::Object(fields) = choice else { return false };
        let given = choice.integer("index");
        let index = given.unwrap_or(place as i64);
        let mut changed = given.is_none() && set(choice, "index", index);
        // A provider that repeats the complete message beside the delta would reveal text that filters removed.
        changed |= self.edited && fields.remove("message").is_some();
        let delta = match choice.get("delta") {
            Some(delta @ Json::Object(_)) => delta,
            _ => {
                let delta = Json::object();
                changed |= set(choice, "delta", delta.clone());
                delta
            }
        };
        let is_first = !self.choices.contains_key(&index);
        changed |= one_role(&delta, is_first);
        let known = self.choices.entry(index).or_default();
        match delta.get("tool_calls") {
            Some(Json::Array(calls)) => {
                let given = calls.items();
                let (count, mut kept) = (given.len(), Vec::with_capacity(given.len()));
                for call in given {
                    // The delta may continue a call that begins in this event.
                    if begins(&call) || known.call_of(&call).is_some() {
                        changed |= known.normalize_call(&call);
                        kept.push(call);
                    }
                }
                if kept.is_empty() {
                    changed |= delta.remove("tool_calls").is_some();
                } else if kept.len() < count {
                    changed |= calls.replace(kept).is_ok();
                }
                changed
            }
            _ => changed,
        }
    }
}

/// Leaves the role in the first delta of a choice only, because some clients concatenate repeated roles.
fn one_role(delta: &Json, is_first: bool) -> bool {
    let says = delta.text("role").is_some_and(|role| !role.is_empty());
    match (is_first, says) {
        (true, false) => set(delta, "role", "assistant"),
        (false, true) => delta.remove("role").is_some(),
        _ => false,
    }
}

/// Returns `true` if a delta names a function or custom tool. The continuation of a call whose start a filter
/// dropped does not.
fn begins(chunk: &Json) -> bool {
    !delta::call_name(chunk).is_empty()
}

impl Choice {
    /// Returns the call that a delta continues.
    fn call_of(&self, chunk: &Json) -> Option<usize> {
        let index = chunk.integer("index");
        let last = self.calls.iter().rposition(|call| index.is_none() || call.index == index);
        last.filter(|at| delta::continues_call(chunk, &self.calls[*at].id, &self.calls[*at].name))
    }

    fn normalize_call(&mut self, chunk: &Json) -> bool {
        if chunk.as_object().is_none() {
            return false;
        }
        let index = chunk.integer("index");
        let known = self.call_of(chunk);
        let at = known.unwrap_or(self.calls.len());
        let called = chunk.get(call::keys_of(chunk).0).filter(|called| called.as_object().is_some());
        let changed = index != Some(at as i64) && set(chunk, "index", at);
        match (known, called) {
            (Some(at), called) => changed | self.calls[at].go_on(chunk, called.as_ref()),
            (None, Some(called)) => changed | self.begin(index, chunk, &called),
            // A call without a function or custom tool has nothing to correct.
            (None, None) => changed,
        }
    }

    /// Starts a call with its id and its name.
    fn begin(&mut self, index: Option<i64>, chunk: &Json, called: &Json) -> bool {
        let changed = call::tidy(chunk);
        self.calls.push(OpenCall {
            index,
            id: chunk.text_or_empty("id"),
            name: called.text_or_empty("name"),
        });
        changed
    }
}

impl OpenCall {
    /// Removes a repeated or empty id and name.
    fn go_on(&mut self, chunk: &Json, called: Option<&Json>) -> bool {
        let mut changed = chunk.text("id").is_some() && chunk.remove("id").is_some();
        let Some(called) = called else { return changed };
        match called.text("name") {
            Some(name) if name.is_empty() || name == self.name => {
                changed |= called.remove("name").is_some();
            }
            Some(name) if self.name.is_empty() => self.name = name,
            _ => {}
        }
        changed
    }
}

/// Sets a field and returns `true`.
fn set(value: &Json, key: &str, new: impl Into<Json>) -> bool {
    value.set(key, new).is_ok()
}
