//! The client's view of a streamed answer: one stream for any number of model calls.
//!
//! The end of the answer is held back until the turn ends, so that text added by filters precedes it. Each
//! choice ends once, followed by the usage. Calls of the host's own tools are not sent to the client.

use super::assembly::Kernel;
use super::form::Form;
use crate::chat::event::REASONING;
use crate::chat::message::TEXT_BREAK;
use crate::chat::response::{LAST_CALL, natural_finish};
use crate::chat::{ModelCall, content_blocks, delta, event, message, split};
use crate::context::{Events, Turn};
use crate::error::Error;
use crate::filter::Hook;
use crate::provider::StreamChunk;
use compact_str::CompactString;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::mpsc::Sender;
use valvehouse_json::Json;

/// The time at which the tool calls of an answer are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// As they arrive.
    Live,
    /// At the end of the answer: they may belong to the host, or filters may append text, which precedes them.
    Held,
}

impl Calls {
    /// `are_last` is set for a client that reads no text after calls.
    pub(super) fn of(kernel: &Kernel, are_last: bool) -> Self {
        let appends = |hook| are_last && kernel.chain().has(hook);
        match kernel.toolbox().is_empty() && !appends(Hook::Outlet) && !appends(Hook::PostChat) {
            true => Self::Live,
            false => Self::Held,
        }
    }
}

/// The request of a filter to hold the stream of a turn.
#[derive(Default)]
struct HeldAnswer(AtomicBool);

/// Delays the stream of a turn until all filters have run, like `hold` of a kernel for every turn. It takes effect if
/// it is called before the first model call.
pub fn hold_answer(turn: &Turn) {
    turn.local::<HeldAnswer>().0.store(true, Relaxed);
}

/// Returns `true` if a filter holds the stream of a turn.
pub(super) fn is_held(turn: &Turn) -> bool {
    turn.local::<HeldAnswer>().0.load(Relaxed)
}

pub(super) struct AnswerStream {
    client: Option<Client>,
    with_usage: bool,
    /// Set if filters read the usage, but the client did not ask for it.
    hides_usage: bool,
    calls: Calls,
    hold: bool,
    form: Form,
    /// The first event, the template for events that filters add.
    first: Option<Json>,
    /// The events received before the id of the stream was known, as Azure sends them.
    early: Vec<StreamChunk>,
    /// The events with finish reasons and usage, until the turn ends.
    last: Vec<StreamChunk>,
    /// The progress of each choice at the client.
    sent: BTreeMap<i64, Progress>,
    /// Set if the answer of this model call was streamed.
    streamed: bool,
    /// The approximate size of `early` and `last`, in bytes.
    held_size: usize,
}

/// The maximum memory of events that are held back, in bytes: the end of an answer, and its events before an id.
const MAX_HELD: usize = 32 << 20;

#[derive(Default)]
struct Progress {
    /// The text sent in this model call.
    text: String,
    /// Set if the client has text of an earlier model call; a separator precedes further text.
    has_text: bool,
    /// Set if it has thinking of this model call, and of an earlier one.
    thinks: bool,
    has_thinking: bool,
    /// The finish reason of the choice in an earlier model call.
    ended: Option<CompactString>,
    /// Set if tool calls of this model call are held back.
    calls_held: bool,
}

impl AnswerStream {
    /// Creates the stream to a client; `None` for an answer that is not streamed. `with_usage` adds the usage.
    pub(super) fn new(client: Option<Client>, with_usage: bool, calls: Calls) -> Self {
        Self {
            client,
            with_usage,
            hides_usage: false,
            calls,
            hold: false,
            form: Form::default(),
            first: None,
            early: Vec::new(),
            last: Vec::new(),
            sent: BTreeMap::new(),
            streamed: false,
            held_size: 0,
        }
    }

    /// Sets whether all events are held back until the complete answer is known.
    pub(super) fn hold(&mut self, hold: bool) {
        self.hold = hold;
    }

    /// Sets when calls are sent, for a turn that was routed to other filters.
    pub(super) fn send_calls(&mut self, calls: Calls) {
        self.calls = calls;
    }

    /// Leaves out the event of the usage, for which the client did not ask.
    pub(super) fn hide_usage(&mut self) {
        self.hides_usage = true;
    }

    /// Returns `true` if the model is requested to stream its answer.
    pub(super) fn wants_chunks(&self) -> bool {
        self.client.is_some()
    }

    /// Returns `true` if events are sent as they arrive.
    pub(super) fn is_live(&self) -> bool {
        self.client.is_some() && !self.hold
    }

    /// Prepares for the next model call: the end of the last answer is not the end of the stream.
    pub(super) async fn next_round(&mut self, answer: &Json) -> Result<(), Error> {
        if self.is_live() {
            self.catch_up(answer).await?;
        }
        for (index, why) in self.last.iter().flat_map(|chunk| reasons(&chunk.event)).collect::<Vec<_>>() {
            self.sent(index).ended = Some(why);
        }
        self.last.clear();
        self.held_size = 0;
        for sent in self.sent.values_mut() {
            let has_text = sent.has_text || !sent.text.is_empty();
            let has_thinking = sent.has_thinking || sent.thinks;
            *sent = Progress { ended: sent.ended.take(), has_text, has_thinking, ..Progress::default() };
        }
        self.form.forget_calls();
        self.streamed = false;
        Ok(())
    }

    /// Processes an event before the filters.
    pub(super) fn receive(&mut self, chunk: &mut StreamChunk) {
        self.form.as_deltas(chunk);
    }

    /// Records that filters changed, dropped or added events.
    pub(super) fn edited(&mut self) {
        self.form.edited();
    }

    /// Normalizes an event for clients; called before [`AnswerStream::send`].
    pub(super) fn normalize(&mut self, chunk: &mut StreamChunk) {
        if self.hold {
            // The event is converted later, once the complete answer is known.
            return;
        }
        self.form.normalize(chunk);
        if self.first.is_none() && self.form.has_id() {
            self.first = Some(event::head_of(&chunk.event));
        }
    }

    /// Sends an event, or holds it back until the end.
    pub(super) async fn send(&mut self, mut chunk: StreamChunk) -> Result<(), Error> {
        if !self.is_live() || (self.hides_usage && chunk.parts().is_usage_alone()) {
            return Ok(());
        }
        self.streamed = true;
        let withheld = self.calls == Calls::Held && chunk.parts().calls && self.withhold_calls(&mut chunk);
        let parts = chunk.parts();
        let ends = parts.finish || parts.is_usage_alone();
        let has_content = parts.has_visible_content();
        if withheld && !has_content && !ends && !parts.usage {
            return Ok(());
        }
        if ends || (!self.last.is_empty() && !has_content) {
            self.hold_back(chunk, has_content).await
        } else if !self.form.has_id() && parts.choices {
            self.count_held(&chunk)?;
            self.early.push(chunk);
            Ok(())
        } else {
            self.deliver(chunk).await
        }
    }

    /// Holds back the end of the answer and sends the rest of the event.
    async fn hold_back(&mut self, chunk: StreamChunk, has_content: bool) -> Result<(), Error> {
        self.count_held(&chunk)?;
        if !has_content {
            self.last.push(chunk);
            return Ok(());
        }
        let (ahead, end) = event::without_finish(&chunk.event);
        self.last.push(StreamChunk::new(end));
        self.deliver(StreamChunk::received(bytes::Bytes::new(), ahead, chunk.name)).await
    }

    /// Counts an event that is held back until the model call ends.
    ///
    /// # Errors
    /// Returns a provider error if the held events exceed their limit.
    pub(super) fn count_held(&mut self, chunk: &StreamChunk) -> Result<(), Error> {
        self.held_size += chunk.event.size_estimate();
        if self.held_size <= MAX_HELD {
            return Ok(());
        }
        let message = format!(
            "the events at the end of the model's answer exceeded their limit of {} MiB",
            MAX_HELD >> 20
        );
        Err(Error::Provider { message: message.into(), timeout: false })
    }

    async fn deliver(&mut self, chunk: StreamChunk) -> Result<(), Error> {
        for (index, delta) in deltas(&chunk.event) {
            let has_text = |key: &&str| delta.as_object().is_some_and(|delta| delta.has_text(key));
            let thinking = REASONING.into_iter().find(has_text);
            if let Some(key) = thinking {
                self.sent(index).thinks = true;
                if std::mem::take(&mut self.sent(index).has_thinking) {
                    self.break_text(index, key).await?;
                }
            }
            let text = message::text_of(&delta);
            if !text.is_empty() && std::mem::take(&mut self.sent(index).has_text) {
                self.break_text(index, "content").await?;
            }
            self.sent(index).text.push_str(&text);
        }
        let Some(client) = &self.client else { return Ok(()) };
        for mut early in self.early.drain(..) {
            self.form.name(&mut early);
            client.send(early).await?;
        }
        client.send(chunk).await
    }

    /// Sends the separator between the texts of two model calls, which filters have judged by themselves.
    async fn break_text(&self, index: i64, key: &str) -> Result<(), Error> {
        let Some(client) = &self.client else { return Ok(()) };
        let delta = Json::from([("index", index.into()), (key, TEXT_BREAK.into())]);
        let template = self.first.clone().unwrap_or_else(Json::object);
        client.send(StreamChunk::new(event::complete(&delta, &template))).await
    }

    fn sent(&mut self, index: i64) -> &mut Progress {
        self.sent.entry(index).or_default()
    }

    /// Removes tool-call deltas from an event. Returns `true` if there were any.
    fn withhold_calls(&mut self, chunk: &mut StreamChunk) -> bool {
        let mut found = false;
        for (index, delta) in deltas(&chunk.event) {
            if delta.remove("tool_calls").is_some() {
                self.sent(index).calls_held = true;
                found = true;
            }
        }
        if found {
            chunk.changed();
        }
        found
    }

    /// Sends the parts of an answer that the client has not received.
    async fn catch_up(&mut self, answer: &Json) -> Result<(), Error> {
        if !self.streamed {
            for (_, message) in messages(answer) {
                content_blocks::reseal(&message);
            }
            for event in split(answer, self.with_usage) {
                let mut chunk = StreamChunk::new(event);
                self.normalize(&mut chunk);
                self.send(chunk).await?;
            }
            return Ok(());
        }
        for (index, message) in messages(answer) {
            let text = message::text_of(&message);
            match text.strip_prefix(self.sent(index).text.as_str()) {
                Some("") => {}
                Some(rest) => self.add(index, "content", rest.into()).await?,
                None => tracing::warn!(
                    "a filter changed text that was already streamed; set `hold: true` to delay the stream until it has run"
                ),
            }
        }
        Ok(())
    }

    /// Sends a delta created by the host.
    async fn add(&mut self, index: i64, key: &str, value: Json) -> Result<(), Error> {
        let delta = Json::from([("index", index.into()), (key, value)]);
        let template = self.first.clone().unwrap_or_else(Json::object);
        let mut chunk = StreamChunk::new(event::complete(&delta, &template));
        self.normalize(&mut chunk);
        self.deliver(chunk).await
    }

    /// Sends the rest: text appended by filters, withheld client tool calls, finish reasons and usage.
    pub(super) async fn finish(mut self, answer: &Json) -> Result<(), Error> {
        if self.client.is_none() {
            return Ok(());
        }
        self.hold = false;
        self.calls = Calls::Live;
        self.catch_up(answer).await?;
        self.form.forget_calls();
        for (index, message) in messages(answer) {
            if self.sent(index).calls_held && !ModelCall::all(&message).is_empty() {
                let calls = message.field("tool_calls").deep_clone();
                for (place, call) in calls.items().iter().enumerate() {
                    call.edit("index", place);
                }
                self.add(index, "tool_calls", calls).await?;
            }
        }
        let ending = AnswerEnd {
            answer,
            before: self
                .sent
                .iter()
                .filter_map(|(index, sent)| Some((*index, sent.ended.clone()?)))
                .collect(),
            first: self.first.as_ref(),
        };
        // The sum over all model calls.
        let total = answer.get("usage").filter(|usage| usage.get(LAST_CALL).is_some());
        let mut says_total = total.is_none() || !self.with_usage;
        for mut chunk in ending.of(std::mem::take(&mut self.last), self.form.begun()) {
            if let Some(total) = &total
                && chunk.parts().usage
            {
                // The value is a copy and the event belongs to this answer, so the write cannot fail.
                chunk.event.edit("usage", total.deep_clone());
                chunk.changed();
                says_total = true;
            }
            // The event may have arrived before the id was known.
            self.normalize_id(&mut chunk);
            self.deliver(chunk).await?;
        }
        if let Some(total) = total.filter(|_| !says_total && self.streamed) {
            // The last model call reported no usage.
            let event = event::head_of(self.first.as_ref().unwrap_or(&Json::Null));
            // The object is new, so the writes cannot fail.
            event.put("object", "chat.completion.chunk");
            event.put("choices", Json::array());
            event.put("usage", total.deep_clone());
            self.deliver(StreamChunk::new(event)).await?;
        }
        Ok(())
    }

    fn normalize_id(&self, chunk: &mut StreamChunk) {
        let has_none = chunk.event.text("id").is_none_or(|id| id.is_empty());
        if has_none && chunk.event.get("choices").is_some() && self.form.has_id() {
            self.form.name(chunk);
        }
    }
}

/// The receiver of a streamed answer.
pub(super) struct Client {
    pub(super) chunks: Sender<StreamChunk>,
    /// The events of the turn, which keep their place among the chunks.
    pub(super) events: Events,
}

impl Client {
    async fn send(&self, chunk: StreamChunk) -> Result<(), Error> {
        self.chunks.send(chunk).await.map_err(|_| Error::Host("the client disconnected".into()))?;
        self.events.count_chunk();
        Ok(())
    }
}

/// The state at the end of an answer.
pub(super) struct AnswerEnd<'a> {
    /// The answer, after all filters.
    pub(super) answer: &'a Json,
    /// The finish reasons of earlier model calls, by choice.
    pub(super) before: BTreeMap<i64, CompactString>,
    /// The first event, the template for others.
    pub(super) first: Option<&'a Json>,
}

impl AnswerEnd<'_> {
    /// Returns the final events, from the held events and the choices that have begun.
    pub(super) fn of(&self, held: Vec<StreamChunk>, begun: Vec<i64>) -> Vec<StreamChunk> {
        let reasons: BTreeMap<i64, CompactString> = reasons(self.answer).collect();
        let mut ended = BTreeSet::new();
        let (mut ends, mut after) = (Vec::new(), Vec::new());
        for mut chunk in held {
            let counts = chunk.parts().usage;
            if deltas(&chunk.event).next().is_none() {
                after.push(chunk);
            } else if end_once(&mut chunk, &reasons, &mut ended) {
                ends.push(chunk);
            } else if counts {
                after.push(chunk);
            }
        }
        for index in begun.into_iter().filter(|index| !ended.contains(index)) {
            // The provider sent no finish reason, or a filter removed it.
            let why = reasons.get(&index).or_else(|| self.before.get(&index)).cloned();
            let why = why.unwrap_or_else(|| self.natural(index).into());
            ends.push(StreamChunk::new(event::ending(index, &why, self.first)));
        }
        let last_usage = after.iter_mut().rposition(|chunk| chunk.parts().is_usage_alone());
        for (place, mut chunk) in after.into_iter().enumerate() {
            if Some(place) == last_usage || !chunk.parts().is_usage_alone() {
                ends.push(chunk);
            }
        }
        ends
    }

    fn natural(&self, index: i64) -> &'static str {
        let message = messages(self.answer).find(|(own, _)| *own == index);
        message.map_or("stop", |(_, message)| natural_finish(&message))
    }
}

/// Leaves in an event the choices that it ends for the first time, each with the finish reason after the
/// filters. Returns `false` if no choice is left.
fn end_once(
    chunk: &mut StreamChunk,
    reasons: &BTreeMap<i64, CompactString>,
    ended: &mut BTreeSet<i64>,
) -> bool {
    let all: Vec<(i64, Json)> = choices(&chunk.event).collect();
    let ends: Vec<Json> = all
        .iter()
        .filter(|(index, choice)| delta::is_last(choice) && ended.insert(*index))
        .map(|(_, choice)| choice.clone())
        .collect();
    let mut changed = ends.len() < all.len() && chunk.event.set("choices", ends.clone()).is_ok();
    for choice in &ends {
        let index = choice.integer("index").unwrap_or(0);
        let reason =
            reasons.get(&index).filter(|reason| choice.text("finish_reason").as_ref() != Some(*reason));
        changed |= reason.is_some_and(|reason| choice.set("finish_reason", reason.clone()).is_ok());
    }
    if changed {
        chunk.changed();
    }
    !ends.is_empty()
}

/// Returns the finish reasons of choices with their indices.
pub(super) fn reasons(of: &Json) -> impl Iterator<Item = (i64, CompactString)> {
    let ended = choices(of).filter(|(_, choice)| delta::is_last(choice));
    ended.map(|(index, choice)| (index, choice.text_or_empty("finish_reason")))
}

/// Returns the choices of an event or answer with their indices.
pub(super) fn choices(of: &Json) -> impl Iterator<Item = (i64, Json)> {
    let choices = of.list("choices");
    choices.into_iter().enumerate().map(|(place, choice)| {
        let index = choice.integer("index");
        (index.unwrap_or(place as i64), choice)
    })
}

pub(super) fn deltas(event: &Json) -> impl Iterator<Item = (i64, Json)> {
    choices(event).filter_map(|(index, choice)| Some((index, choice.get("delta")?)))
}

pub(super) fn messages(answer: &Json) -> impl Iterator<Item = (i64, Json)> {
    choices(answer).filter_map(|(index, choice)| Some((index, choice.get("message")?)))
}
