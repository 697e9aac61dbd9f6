//! Chunks of a chat as the events of Anthropic's stream.

use super::blocks::{Seal, is_for, length_on, split_at};
use super::blocks::{thinking_in, without_index};
use super::cite::Citations;
use super::ending;
use super::events::Calls;
use super::events::Events;
use super::part::{CONTENT_BLOCKS, others};
use crate::chat::event::REASONING;
use crate::chat::{items, message, response};
use compact_str::CompactString;
use std::collections::VecDeque;
use valvehouse_json::Json;

/// The fields that every chunk may have.
const OF_CHUNKS: [&str; 6] = ["id", "object", "created", "model", "choices", "usage"];

/// Writes a stream's chunks, one after the other, as events: one start, blocks that are begun and
/// ended one at a time, one end. What `type` says is the event's name.
///
/// ```
/// use valvehouse_core::anthropic::Writer;
/// use valvehouse_json::Json;
/// let chunk = r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
/// let mut writer = Writer::default();
/// let mut events = writer.write(&Json::parse(chunk.as_bytes()).unwrap());
/// events.extend(writer.end());
/// let names: Vec<_> = events.iter().filter_map(|event| event.text("type")).collect();
/// let block = ["content_block_start", "content_block_delta", "content_block_stop"];
/// assert_eq!(names, [&["message_start"][..], &block, &["message_delta", "message_stop"]].concat());
/// ```
#[derive(Debug, Default)]
pub struct Writer {
    events: Events,
    begun: bool,
    /// Is `true` once a chunk came that has nothing of the first choice.
    has_others: bool,
    open: Option<Open>,
    /// Blocks that are known before their text has come.
    plan: VecDeque<Json>,
    calls: Calls,
    /// Set once text has come that belongs to no open block.
    said: bool,
    /// The same of thinking.
    thought: bool,
    /// Text that came in the middle of a call, with its kind.
    held: Vec<(&'static str, String)>,
    /// The seal of the open block's text so far.
    seal: Seal,
    /// That text, where it is not thinking.
    text: String,
    refuses: bool,
    /// The sources that wait for a text.
    citations: Citations,
    choice: Json,
    usage: Json,
    /// Fields of the first chunk, which the start has; a later chunk's others belong to the end.
    head: Vec<CompactString>,
    beside: Vec<(CompactString, Json)>,
    /// The tokens of the prompt, as far as they can be estimated before the service counts them.
    estimate: usize,
}

#[derive(Debug, PartialEq)]
enum Open {
    /// With how much of it may still come; none where nobody knows.
    Text(Option<usize>),
    Thinking(Option<usize>),
    Call(usize),
}

/// The text that may still come for what is planned.
#[derive(Clone, Copy, PartialEq)]
enum Coming {
    Perhaps,
    No,
}

impl Writer {
    /// Sets the estimate of the prompt's tokens with which a message begins whose service counts at its end.
    #[must_use]
    pub fn with_estimate(mut self, tokens: usize) -> Self {
        self.estimate = tokens;
        self
    }

    /// The events that a chunk is.
    pub fn write(&mut self, chunk: &Json) -> Vec<Json> {
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            self.usage = usage.copy();
        }
        // Anthropic's answers have one choice.
        if let Some(choice) = response::first_choice(chunk) {
            self.begin(chunk);
            self.delta(&choice.field("delta"));
            if choice.text("finish_reason").is_some_and(|reason| !reason.is_empty()) {
                self.choice = choice.copy();
                self.beside = others(chunk, &OF_CHUNKS);
                self.beside.retain(|(key, _)| !self.head.contains(key));
            }
        } else if chunk.get("choices").is_some_and(|choices| !choices.is_empty()) {
            self.has_others = true;
        }
        self.events.take()
    }

    /// Returns `true` if the chunks so far are of other choices than the first. No message can be made of those.
    pub fn lacks_first_choice(&self) -> bool {
        self.has_others && !self.begun
    }

    /// The events of the end.
    pub fn end(mut self) -> Vec<Json> {
        self.begin(&Json::object());
        self.finish_texts();
        while let Some(at) = self.calls.next_waiting() {
            self.open_call(at);
            self.close();
        }
        let stop = ending::stop(&self.choice, !self.calls.is_empty(), self.refuses);
        let (container, beside): (Vec<_>, Vec<_>) =
            self.beside.into_iter().partition(|(key, _)| key == "container");
        for (key, value) in container {
            // A copy, in an object just made.
            stop.edit(&key, value);
        }
        self.events.end(stop, ending::counts(&self.usage), beside);
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
        let own = REASONING.iter().find_map(|name| delta.text(name)).map(String::from);
        self.think(&own.unwrap_or_else(|| thinking_in(&content)));
        self.say(&message::text_of(delta));
        let refusal = delta.text_or_empty("refusal");
        self.refuses = self.refuses || !refusal.is_empty();
        self.say(&refusal);
        self.citations.add(delta);
        for (place, piece) in delta.list("tool_calls").iter().enumerate() {
            self.call(place, piece);
        }
    }

    /// A remembered block: the end of the one that is open, one that stands alone, or one whose text
    /// is still to come.
    fn item(&mut self, item: Json) {
        let kind = item.text_or_empty("type");
        if kind == items::ITEM {
            // It is another service's, which clients of Anthropic's cannot read.
            return;
        }
        if self.is_within_call() {
            self.plan.push_back(item);
            return;
        }
        let has_come = match &*kind {
            "text" => std::mem::take(&mut self.said),
            "thinking" => std::mem::take(&mut self.thought),
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

    /// Writes the planned blocks that need no text any more: up to the first that does, or all of
    /// them where no text comes any more.
    fn follow_plan(&mut self, text: Coming) {
        while let Some(item) = self.plan.front() {
            let kind = item.text_or_empty("type");
            let waits = matches!(&*kind, "text" | "thinking") && length_on(item) > 0;
            if waits && text == Coming::Perhaps {
                return;
            }
            let Some(item) = self.plan.pop_front() else { return };
            match &*kind {
                // Its text was taken out, or its call stands where it stands.
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

    fn think(&mut self, text: &str) {
        self.add(text, "thinking");
    }

    fn say(&mut self, text: &str) {
        self.add(text, "text");
    }

    /// Text for the open block, or for the planned ones in their order.
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
            let left = self.room(kind);
            let (now, rest) = left.map_or((text, ""), |left| split_at(text, left));
            self.events.say(kind, now);
            self.seal.add(now);
            if kind == "text" {
                self.text.push_str(now);
            }
            text = rest;
            match (kind, left) {
                ("text", None) => self.said = true,
                (_, None) => self.thought = true,
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

    /// Returns `true` if a call is open of which more has to come.
    fn is_within_call(&self) -> bool {
        matches!(self.open, Some(Open::Call(at)) if !self.calls.is_whole(at))
    }

    /// Writes what came in the middle of a call.
    fn release(&mut self) {
        for (kind, text) in std::mem::take(&mut self.held) {
            self.add(&text, kind);
        }
    }

    /// Ends what is open, and writes whatever still waited for something.
    fn finish_texts(&mut self) {
        if matches!(self.open, Some(Open::Call(_))) {
            self.close();
        }
        self.release();
        self.close();
        self.follow_plan(Coming::No);
    }

    /// Opens a block for such text, unless one is open, and says how much it takes.
    fn room(&mut self, kind: &str) -> Option<usize> {
        match (kind, &self.open) {
            ("text", Some(Open::Text(left))) | ("thinking", Some(Open::Thinking(left))) => return *left,
            _ => {}
        }
        self.close();
        let is_such = |item: &Json| item.text("type").is_some_and(|own| own == kind);
        let planned = self.plan.iter().position(is_such).and_then(|at| self.plan.remove(at));
        let left = planned.as_ref().map(length_on);
        match planned {
            // Thoughts may come before their place.
            Some(item) => self.plan.push_front(item),
            // No text is planned any more: what is stands before the rest.
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

    fn call(&mut self, place: usize, piece: &Json) {
        let (at, more) = self.calls.take(place, piece);
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

    /// A block with nothing in it that grows.
    fn whole(&mut self, item: &Json) {
        self.close();
        self.events.whole(item);
    }

    /// Ends the open block with what is remembered of it. A text that was changed has no signature and no
    /// citations: they were of another.
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

    /// Returns `true` if the open text ends with that of an item, behind the text of an earlier model call.
    fn ends_with(&self, item: &Json) -> bool {
        let length = length_on(item);
        let before = self.text.chars().count().checked_sub(length).filter(|_| length > 0);
        before.is_some_and(|before| {
            let (earlier, own) = split_at(&self.text, before);
            earlier.ends_with(response::TEXT_BREAK) && is_for(item, own)
        })
    }

    /// Writes the sources that came, at the end of a text: a remembered block that has its own may come as late.
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
                // The block was cut short by something else: the plan for it is over.
                self.plan.pop_front();
                self.events.stop();
            }
            Some(_) => self.events.stop(),
        }
    }
}
