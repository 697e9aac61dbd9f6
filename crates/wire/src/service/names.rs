//! Restoration of the client's names of tools, and of its form of calls, in answers.

use compact_str::CompactString;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::collections::HashMap;
use valvehouse_core::chat::delta::call_name;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, StreamChunk};
use valvehouse_json::Json;

/// The client's names of tools, by the names that the service received.
#[derive(Debug, Default)]
pub struct Names {
    own: HashMap<CompactString, CompactString>,
    /// Set if the client expects a call as `function_call`.
    is_legacy: bool,
}

/// The start of a name whose rest arrives in a later event, by choice and call.
type Starts = HashMap<(i64, i64), CompactString>;

impl Names {
    pub(super) fn new(own: HashMap<CompactString, CompactString>, is_legacy: bool) -> Self {
        Self { own, is_legacy }
    }

    /// Restores the names in an answer, which must not be shared yet.
    pub fn restore(self, answer: Answer) -> Answer {
        if self.own.is_empty() && !self.is_legacy {
            return answer;
        }
        match answer {
            Answer::Whole(whole) => {
                for choice in whole.list("choices") {
                    for call in choice.field("message").list("tool_calls") {
                        if let Some(own) = self.own.get(&call_name(&call)) {
                            set_name(&call, own);
                        }
                    }
                    if self.is_legacy {
                        write_legacy(&choice, "message");
                    }
                }
                Answer::Whole(whole)
            }
            Answer::Stream(chunks) => Answer::Stream(self.restored(chunks)),
        }
    }

    fn restored(
        self,
        chunks: BoxStream<'static, Result<StreamChunk, Error>>,
    ) -> BoxStream<'static, Result<StreamChunk, Error>> {
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
    fn look(&self, event: &Json, starts: &mut Starts) -> bool {
        let mut is_changed = false;
        for choice in event.list("choices") {
            let number = |of: &Json| of.integer("index").unwrap_or(0);
            for call in choice.field("delta").list("tool_calls") {
                let place = (number(&choice), number(&call));
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
            is_changed |= self.is_legacy && write_legacy(&choice, "delta");
        }
        is_changed
    }
}

/// Writes the first call in a choice as its `function_call`, which has no others. Returns `true` if it was changed.
fn write_legacy(choice: &Json, key: &str) -> bool {
    let message = choice.field(key);
    let calls = message.list("tool_calls");
    let first = calls.iter().find(|call| call.integer("index").is_none_or(|index| index == 0));
    if let Some(first) = first {
        message.edit("function_call", first.field("function"));
    }
    let is_end = choice.is_text("finish_reason", "tool_calls");
    if is_end {
        choice.edit("finish_reason", "function_call");
    }
    message.remove("tool_calls").is_some() || is_end
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
