//! Restoration of the client's names of tools in answers, and ids that no earlier call has.

use compact_str::CompactString;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::collections::{HashMap, HashSet};
use valvehouse_core::chat::delta::call_name;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, StreamChunk};
use valvehouse_json::Json;

/// The client's names of tools, by the names that the service received.
#[derive(Debug, Default)]
pub struct Names {
    own: HashMap<CompactString, CompactString>,
    /// The request, whose calls are read for an answer that may have calls.
    request: Json,
    /// The ids of earlier calls: clients pair results by them, and some services count from 0 in each answer.
    taken: HashSet<String>,
    /// The new ids of calls of the answer, by choice and call.
    ids: HashMap<(i64, i64), CompactString>,
}

/// The start of a name whose rest arrives in a later event, by choice and call.
type Starts = HashMap<(i64, i64), CompactString>;

impl Names {
    pub(super) fn new(own: HashMap<CompactString, CompactString>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Sets the request with earlier calls, whose ids calls of the answer may not use again.
    #[must_use]
    pub fn with_calls_of(self, request: Json) -> Self {
        Self { request, ..self }
    }

    fn take_ids(&mut self) {
        for message in std::mem::take(&mut self.request).list("messages") {
            let calls = message.list("tool_calls");
            self.taken.extend(calls.iter().map(|call| plain(&call.text_or_empty("id"))));
        }
    }

    /// Restores the names in an answer, which must not be shared yet.
    pub fn restore(mut self, answer: Answer) -> Answer {
        match answer {
            Answer::Whole(whole) => {
                for choice in whole.list("choices") {
                    for (at, call) in (0..).zip(choice.field("message").list("tool_calls")) {
                        self.take_ids();
                        self.renew_id(&call, (choice.integer("index").unwrap_or(0), at));
                        if let Some(own) = self.own.get(&call_name(&call)) {
                            set_name(&call, own);
                        }
                    }
                }
                Answer::Whole(whole)
            }
            Answer::Stream(chunks) => Answer::Stream(self.restored(chunks)),
        }
    }

    fn restored(
        mut self,
        chunks: BoxStream<'static, Result<StreamChunk, Error>>,
    ) -> BoxStream<'static, Result<StreamChunk, Error>> {
        self.take_ids();
        if self.own.is_empty() && self.taken.is_empty() {
            return chunks;
        }
        let mut starts = Starts::new();
        let chunks = chunks.map(move |chunk| {
            chunk.map(|mut chunk| {
                if self.look(&chunk.event, &mut starts) {
                    chunk.changed();
                }
                chunk
            })
        });
        chunks.boxed()
    }

    /// Restores the names in an event. Returns `true` if it was changed.
    fn look(&mut self, event: &Json, starts: &mut Starts) -> bool {
        let mut is_changed = false;
        for choice in event.list("choices") {
            let number = |of: &Json| of.integer("index").unwrap_or(0);
            for call in choice.field("delta").list("tool_calls") {
                let place = (number(&choice), number(&call));
                is_changed |= self.renew_id(&call, place);
                let (given, start) = (call_name(&call), starts.remove(&place));
                if given.is_empty() && start.is_none() {
                    continue;
                }
                let name = match &start {
                    Some(start) => format!("{start}{given}").into(),
                    None => given.clone(),
                };
                if let Some(own) = self.own.get(&name).or_else(|| self.own.get(&given)) {
                    set_name(&call, own);
                    is_changed = true;
                } else if !given.is_empty() && self.own.keys().any(|short| short.starts_with(&*name)) {
                    set_name(&call, "");
                    is_changed = true;
                    starts.insert(place, name);
                } else if start.is_some() {
                    set_name(&call, &name);
                    is_changed = true;
                }
            }
        }
        is_changed
    }
}

impl Names {
    /// Gives a call whose id an earlier call has another one. Returns `true` if it was changed.
    fn renew_id(&mut self, call: &Json, place: (i64, i64)) -> bool {
        let Some(id) = call.text("id").filter(|id| !id.is_empty()) else { return false };
        let new = match self.ids.get(&place) {
            Some(new) => new.clone(),
            None if !self.taken.contains(&plain(&id)) => return false,
            None => self.free(&id),
        };
        call.edit("id", new.as_str());
        self.ids.insert(place, new);
        true
    }

    /// Returns the next id that no earlier call has: its number is counted on.
    fn free(&mut self, id: &str) -> CompactString {
        let start = id.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number: u64 = id[start.len()..].parse().unwrap_or(0);
        let mut next = number + 1;
        while !self.taken.insert(plain(&format!("{start}{next}"))) {
            next += 1;
        }
        format!("{start}{next}").into()
    }
}

/// Returns an id as protocols with fewer characters have it.
fn plain(id: &str) -> String {
    id.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

/// Sets the name of a call or of a part of it.
fn set_name(call: &Json, name: &str) {
    let key = if call.field("custom").is_object() { "custom" } else { "function" };
    let called = call.field(key);
    let set = match called.is_object() {
        true => called.set("name", name),
        false => call.set(key, Json::from([("name", name.into())])),
    };
    if set.is_err() {
        tracing::error!("cannot restore the name of a tool: the response is read-only");
    }
}
