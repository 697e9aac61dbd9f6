//! Conversion of chat chunks to Anthropic's stream.

use super::events::{Calls, Events};
use crate::messages::blocks::without_index;
use crate::messages::cite::Citations;
use crate::messages::part::others;
use crate::messages::stop_reason;
use compact_str::CompactString;
use std::collections::VecDeque;
use valvehouse_core::chat::content_blocks::{Seal, is_for, length_on, split_at, thinking_in};
use valvehouse_core::chat::{CONTENT_BLOCKS, event, items, message, response};
use valvehouse_json::Json;

/// The standard fields of a chunk.
const OF_CHUNKS: [&str; 6] = ["id", "object", "created", "model", "choices", "usage"];

/// Converts the chunks of a stream, one by one, to Anthropic's events: one start, blocks that are started and
/// stopped one at a time, and one end. The event name is the `type` of the event.
///
/// ```
/// use valvehouse_wire::messages::stream::MessagesWriter;
/// use valvehouse_json::Json;
/// let chunk = r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
/// let mut writer = MessagesWriter::default();
/// let mut events = writer.write(&Json::parse(chunk.as_bytes()).unwrap());
/// events.extend(writer.end());
/// let names: Vec<_> = events.iter().filter_map(|event| event.text("type")).collect();
/// let block = ["content_block_start", "content_block_delta", "content_block_stop"];
/// assert_eq!(names, [&["message_start"][..], &block, &["message_delta", "message_stop"]].concat());
/// ```
#[derive(Debug, Default)]
pub struct MessagesWriter {
    events: Events,
    begun: bool,
    /// Set once a chunk arrived that has only other choices than the first.
    has_others: bool,
    open: Option<Open>,
    /// Blocks that are known before their text arrives.
    plan: VecDeque<Json>,
    calls: Calls,
    /// Set once text arrived that belongs to no open block.
    has_text: bool,
    /// Set once thinking arrived that belongs to no open block.
    has_thinking: bool,
    /// Text that arrived in the middle of a tool call, with its kind.
    held: Vec<(&'static str, String)>,
    /// The seal of the open block's text so far.
    seal: Seal,
    /// The open block's text, if it is not thinking.
    text: String,
    refuses: bool,
    /// The place of the last thinking.
    reasoning: Option<(&'static str, i64)>,
    /// Set once thinking was written; the next block of it is another paragraph in a chat.
    has_thought: bool,
    /// The length of the break before that paragraph which has arrived, in bytes.
    skipped: usize,
    /// Set if the last text was one of a refusal.
    is_refusal: bool,
    /// Citations that wait for a text block.
    citations: Citations,
    choice: Json,
    usage: Json,
    /// The fields of the first chunk, sent with `message_start`; new fields of later chunks are sent at the
    /// end.
    head: Vec<CompactString>,
    beside: Vec<(CompactString, Json)>,
    /// The estimated number of prompt tokens, used until the provider reports its count.
    estimate: usize,
}

#[derive(Debug, PartialEq)]
enum Open {
    /// The number of characters that may still arrive; `None` if unknown.
    Text(Option<usize>),
    Thinking(Option<usize>),
    Call(usize),
}

/// The kinds of text that may still arrive for planned blocks.
#[derive(Clone, Copy, PartialEq)]
enum Coming {
    Perhaps,
    No,
}

impl MessagesWriter {
    /// Sets the estimated number of prompt tokens for `message_start`, used if the provider reports its count
    /// only at the end.
    #[must_use]
    pub fn with_estimate(mut self, tokens: usize) -> Self {
        self.estimate = tokens;
        self
    }

    /// Returns the events for a chunk.
    pub fn write(&mut self, chunk: &Json) -> Vec<Json> {
        if let Some(usage) = response::usage_of(chunk) {
            self.usage = usage.deep_clone();
        }
        // Anthropic's messages have one choice.
        if let Some(choice) = response::first_choice(chunk) {
            self.begin(chunk);
            self.delta(&choice.field("delta"));
            if choice.text("finish_reason").is_some_and(|reason| !reason.is_empty()) {
                self.choice = choice.deep_clone();
                self.beside = others(chunk, &OF_CHUNKS);
                self.beside.retain(|(key, _)| !self.head.contains(key));
            }
        } else if chunk.get("choices").is_some_and(|choices| !choices.is_empty()) {
            self.has_others = true;
        }
        self.events.take()
    }

    /// Returns `true` if all chunks so far belong to other choices than the first. Such a stream has no
    /// Anthropic equivalent.
    pub fn lacks_first_choice(&self) -> bool {
        self.has_others && !self.begun
    }

    /// Returns the final events of the stream.
    pub fn end(mut self) -> Vec<Json> {
        self.begin(&Json::object());
        self.finish_texts();
        while let Some(at) = self.calls.next_waiting() {
            self.open_call(at);
            self.close();
        }
        let stop = stop_reason::stop(&self.choice, !self.calls.is_empty(), self.refuses);
        let (container, beside): (Vec<_>, Vec<_>) =
            self.beside.into_iter().partition(|(key, _)| key == "container");
        for (key, value) in container {
            // The object is new and the value is a copy, so the write cannot fail.
            stop.edit(&key, value);
        }
        let counts = stop_reason::counts(&self.usage);
        let is_counted = self.usage.get("prompt_tokens").is_some_and(|count| count.as_i64().is_some());
        if !is_counted && self.estimate > 0 {
            // Without the service's count, the estimate of the start remains.
            counts.put("input_tokens", self.estimate);
        }
        self.events.end(stop, counts, beside);
        self.events.take()
    }

    fn begin(&mut self, chunk: &Json) {
        if !std::mem::replace(&mut self.begun, true) {
            self.head = others(chunk, &OF_CHUNKS).into_iter().map(|(key, _)| key).collect();
            self.events.begin(chunk, self.estimate);
        }
    }

    fn delta(&mut self, delta: &Json) {
        for item in delta.list(CONTENT_BLOCKS) {
            self.citations.remember(&item);
            self.item(item);
        }
        let content = delta.field("content");
        let own = event::joined_reasoning(delta, &mut self.reasoning);
        self.add_thinking(&if own.is_empty() { thinking_in(&content) } else { own.into() });
        for (is_refusal, text) in [(false, message::text_of(delta)), (true, delta.text_or_empty("refusal"))] {
            if text.is_empty() {
                continue;
            }
            // Filters have judged each by itself, so it is another block.
            if self.is_refusal != is_refusal && matches!(self.open, Some(Open::Text(_))) {
                self.close();
            }
            self.is_refusal = is_refusal;
            self.refuses |= is_refusal;
            self.add_text(&text);
        }
        self.citations.add(delta);
        for (place, chunk) in delta.list("tool_calls").iter().enumerate() {
            self.call(place, chunk);
        }
    }

    /// Handles a remembered block: the end of the open block, a complete block, or a block whose text is still
    /// to arrive.
    fn item(&mut self, item: Json) {
        let kind = item.text_or_empty("type");
        if kind == items::ITEM {
            // The item belongs to another provider; Anthropic clients cannot read it.
            return;
        }
        if self.is_within_call() {
            self.plan.push_back(item);
            return;
        }
        let has_come = match &*kind {
            "text" => std::mem::take(&mut self.has_text),
            "thinking" => std::mem::take(&mut self.has_thinking),
            "tool_use" => !self.calls.is_empty(),
            _ => false,
        };
        let is_open = matches!(
            (&*kind, &self.open),
            ("text", Some(Open::Text(_)))
                | ("thinking", Some(Open::Thinking(_)))
                | ("tool_use", Some(Open::Call(_)))
        );
        if has_come && is_open {
            self.close_as(&item);
        } else if !has_come {
            self.plan.push_back(item);
            self.follow_plan(Coming::Perhaps);
        }
    }

    /// Writes the planned blocks that wait for no text: those before the first block that still does, or all if
    /// no more text follows.
    fn follow_plan(&mut self, text: Coming) {
        while let Some(item) = self.plan.front() {
            let kind = item.text_or_empty("type");
            let waits = matches!(&*kind, "text" | "thinking") && length_on(item) > 0;
            if waits && text == Coming::Perhaps {
                return;
            }
            let Some(item) = self.plan.pop_front() else { return };
            match &*kind {
                // The text was removed, or the tool call is sent at its own position.
                "text" | "tool_use" => {}
                "thinking" if waits => {}
                "thinking" => {
                    self.close();
                    self.seal = Seal::default();
                    self.events.start_thinking();
                    self.open = Some(Open::Thinking(None));
                    self.close_as(&item);
                }
                _ => self.whole(&without_index(&item)),
            }
        }
    }

    fn add_thinking(&mut self, text: &str) {
        self.add(text, "thinking");
    }

    fn add_text(&mut self, text: &str) {
        self.add(text, "text");
    }

    /// Adds text to the open block or to the planned blocks in order.
    fn add(&mut self, mut text: &str, kind: &'static str) {
        if text.is_empty() {
            return;
        }
        if self.is_within_call() {
            self.held.push((kind, text.to_owned()));
            return;
        }
        self.release();
        while !text.is_empty() {
            if kind == "thinking" && self.has_thought && !matches!(self.open, Some(Open::Thinking(_))) {
                let left = &message::TEXT_BREAK[self.skipped..];
                if let Some(rest) = text.strip_prefix(left) {
                    (text, self.skipped) = (rest, message::TEXT_BREAK.len());
                } else if left.starts_with(text) {
                    self.skipped += text.len();
                    return;
                } else if let skipped @ 1.. = std::mem::take(&mut self.skipped) {
                    return self.add(&[&message::TEXT_BREAK[..skipped], text].concat(), kind);
                }
                if text.is_empty() {
                    return;
                }
                self.skipped = 0;
            }
            self.has_thought |= kind == "thinking";
            let left = self.room(kind);
            let (now, rest) = left.map_or((text, ""), |left| split_at(text, left));
            self.events.text_delta(kind, now);
            self.seal.add(now);
            if kind == "text" {
                self.text.push_str(now);
            }
            text = rest;
            match (kind, left) {
                ("text", None) => self.has_text = true,
                (_, None) => self.has_thinking = true,
                _ => {}
            }
            let left = left.map(|left| left - now.chars().count());
            let is_full = left == Some(0);
            let left = left.filter(|_| !is_full);
            self.open = Some(if kind == "text" { Open::Text(left) } else { Open::Thinking(left) });
            if is_full && let Some(item) = self.plan.pop_front() {
                self.close_as(&item);
                self.follow_plan(Coming::Perhaps);
            }
        }
    }

    /// Returns `true` if the open block is an incomplete tool call.
    fn is_within_call(&self) -> bool {
        matches!(self.open, Some(Open::Call(at)) if !self.calls.is_whole(at))
    }

    /// Writes the text that arrived in the middle of a tool call.
    fn release(&mut self) {
        for (kind, text) in std::mem::take(&mut self.held) {
            self.add(&text, kind);
        }
    }

    /// Stops the open block and writes everything that waits.
    fn finish_texts(&mut self) {
        if matches!(self.open, Some(Open::Call(_))) {
            self.close();
        }
        self.release();
        self.close();
        self.follow_plan(Coming::No);
    }

    /// Opens a block for this kind of text unless one is open. Returns the number of characters it can still
    /// take, `None` for unlimited.
    fn room(&mut self, kind: &str) -> Option<usize> {
        match (kind, &self.open) {
            ("text", Some(Open::Text(left))) | ("thinking", Some(Open::Thinking(left))) => return *left,
            _ => {}
        }
        self.close();
        let is_such = |item: &Json| item.is_text("type", kind);
        let planned = self.plan.iter().position(is_such).and_then(|at| self.plan.remove(at));
        let left = planned.as_ref().map(length_on);
        match planned {
            // Thinking may arrive before its position.
            Some(item) => self.plan.push_front(item),
            // No text is planned anymore: the planned blocks come before the rest.
            None if kind == "text" => self.follow_plan(Coming::No),
            None => {}
        }
        self.seal = Seal::default();
        self.text.clear();
        if kind == "text" {
            self.events.start_text()
        } else {
            self.events.start_thinking()
        }
        left
    }

    fn call(&mut self, place: usize, chunk: &Json) {
        let (at, more) = self.calls.take(place, chunk);
        if self.open == Some(Open::Call(at)) {
            self.events.input(&more);
        } else if self.calls.may_begin(at) {
            self.open_call(at);
        }
    }

    fn open_call(&mut self, at: usize) {
        self.finish_texts();
        let (block, so_far) = self.calls.begin(at);
        self.events.start(block);
        self.open = Some(Open::Call(at));
        self.events.input(&so_far);
    }

    /// Writes a complete block without deltas.
    fn whole(&mut self, item: &Json) {
        self.close();
        self.events.whole(item);
    }

    /// Stops the open block with the fields of its remembered block. Text that was changed since it was sealed
    /// gets neither the signature nor the citations.
    fn close_as(&mut self, item: &Json) {
        let has_text = matches!(self.open, Some(Open::Text(_) | Open::Thinking(_)));
        if has_text && !self.seal.fits(item) && !self.ends_with(item) {
            if item.get("signature").is_some() {
                tracing::info!("a filter changed signed thinking; it is sent without its signature");
            }
            self.close();
            return;
        }
        match self.open {
            Some(Open::Text(_)) => {
                for citation in item.list("citations") {
                    self.events.delta("citations_delta", "citation", citation);
                }
            }
            Some(Open::Thinking(_)) => {
                if let Some(signature) = item.get("signature").filter(|signature| !signature.is_empty()) {
                    self.events.delta("signature_delta", "signature", signature);
                }
            }
            _ => {}
        }
        self.close();
    }

    /// Returns `true` if the open text ends with that of an item, after the text of an earlier model call.
    fn ends_with(&self, item: &Json) -> bool {
        let length = length_on(item);
        let before = self.text.chars().count().checked_sub(length).filter(|_| length > 0);
        before.is_some_and(|before| {
            let (earlier, own) = split_at(&self.text, before);
            earlier.ends_with(message::TEXT_BREAK) && is_for(item, own)
        })
    }

    /// Writes the collected citations at the end of a text, because a remembered block with its own citations
    /// may arrive as late.
    fn cite(&mut self) {
        if let Some(Open::Text(_)) = self.open {
            for citation in self.citations.take() {
                self.events.delta("citations_delta", "citation", citation);
            }
        }
    }

    fn close(&mut self) {
        self.cite();
        match self.open.take() {
            None => {}
            Some(Open::Text(Some(_)) | Open::Thinking(Some(_))) => {
                // Another block interrupted this one: its plan is discarded.
                self.plan.pop_front();
                self.events.stop();
            }
            Some(_) => self.events.stop(),
        }
    }
}
