//! Conversion of the chunks of a chat to the events of a response.

use crate::responses::answer::{Resource, ResponseState, incomplete_reason, output};
use crate::responses::id::new_id;
use crate::responses::order::{MESSAGE, phase_of};
use crate::responses::tools::Spaces;
use crate::responses::usage;
use std::collections::VecDeque;
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::chat::event::{self, REASONING};
use valvehouse_core::chat::{TextChunks, items, message, response, split_texts};
use valvehouse_json::Json;

/// Converts the chunks of a chat to events: `response.created`, the items with their parts, and a last event
/// that contains the whole response. An item keeps its id and its index from its first event to its last.
pub struct ResponsesWriter {
    resource: Resource,
    spaces: Spaces,
    sequence: u64,
    stage: Stage,
    has_first: bool,
    has_others: bool,
    items: Vec<Item>,
    /// The content blocks that the provider signed.
    blocks: Vec<Json>,
    /// The encrypted reasoning items without text that have not been written yet.
    encrypted: VecDeque<Json>,
    /// The thoughts of a complete answer, until its first reasoning item is written.
    thoughts: Option<String>,
    /// Set if the thoughts come from a complete answer, so that those in chunks are ignored.
    has_thoughts: bool,
    /// The phase of the next message.
    phase: Option<&'static str>,
    /// The summary so far, if the answer is one.
    summary: String,
    /// The place of the last thinking.
    reasoning: Option<(&'static str, i64)>,
    finish: String,
    usage: Json,
    /// The sources and log probabilities that arrived before the text they belong to.
    annotations: Vec<Json>,
    logprobs: Vec<Json>,
    /// Set if the log probabilities come from a complete answer, so that those in chunks are ignored.
    has_logprobs: bool,
}

/// The progress of the events at the start of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No event has been written.
    New,
    /// The response is queued in the background.
    Queued,
    /// All events of the start have been written.
    Begun,
}

/// The message of the error for a compaction without a summary.
pub const NO_SUMMARY: &str = "cannot compact the conversation: the model wrote no summary; try again";

/// The status of an item that may still grow.
const OPEN: &str = "in_progress";

/// An item of the output.
struct Item {
    id: String,
    kind: Kind,
    /// [`OPEN`] until the item is closed.
    status: &'static str,
}

/// The text of a message.
#[derive(Clone, Default)]
struct Text {
    text: String,
    annotations: Vec<Json>,
    logprobs: Vec<Json>,
}

impl Text {
    fn part(&self) -> Json {
        output::text_part(&self.text, &self.annotations, &self.logprobs)
    }
}

enum Kind {
    /// Thoughts, and the item in which their provider encrypted them, if any.
    Reasoning {
        text: String,
        encrypted: Option<Json>,
    },
    /// An item that only its provider can read.
    Foreign(Json),
    Message {
        text: Option<Text>,
        refusal: Option<String>,
        phase: Option<&'static str>,
    },
    Call {
        index: i64,
        call_id: String,
        name: String,
        given: String,
        is_custom: bool,
    },
}

impl ResponsesWriter {
    /// Starts a response; `spaces` are the functions of the namespaces of its request.
    pub fn new(resource: Resource, spaces: Spaces) -> Self {
        Self {
            resource,
            spaces,
            sequence: 0,
            stage: Stage::New,
            has_first: false,
            has_others: false,
            items: Vec::new(),
            blocks: Vec::new(),
            encrypted: VecDeque::new(),
            thoughts: None,
            has_thoughts: false,
            phase: None,
            summary: String::new(),
            reasoning: None,
            finish: String::new(),
            usage: Json::Null,
            annotations: Vec::new(),
            logprobs: Vec::new(),
            has_logprobs: false,
        }
    }

    /// Returns the events of a response that is queued in the background.
    pub fn queue(&mut self) -> Vec<Json> {
        self.stage = Stage::Queued;
        ["response.created", "response.queued"].map(|name| self.stated(name, &ResponseState::Queued)).into()
    }

    /// Returns the events of a response that starts.
    pub fn started(&mut self) -> Vec<Json> {
        let mut events = Vec::new();
        self.begin(&mut events);
        events
    }

    /// Continues the events of another writer of the same response. `sequence` is the number of the next
    /// event.
    pub fn go_on(&mut self, sequence: u64) {
        self.stage = Stage::Begun;
        self.sequence = sequence;
    }

    /// Returns the response with items that another writer produced.
    pub fn standing(&self, items: &[Json], end: &ResponseState) -> Json {
        self.resource.with(items, &self.usage, end)
    }

    /// Returns the resource of the response.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Takes a complete answer, whose events are not sent, only the response of [`ResponsesWriter::end`].
    pub fn write_whole(&mut self, answer: &Json) {
        let choice = Json::from(response::first_choice(answer));
        self.expect_logprobs(&choice);
        self.expect_thoughts(&choice);
        self.go_on(0);
        let chunks = split_texts(answer, TextChunks::Whole, true);
        chunks.iter().for_each(|chunk| drop(self.write(chunk)));
    }

    /// Stores the log probabilities of a complete answer.
    fn expect_logprobs(&mut self, choice: &Json) {
        self.logprobs = logprobs_of(choice);
        self.has_logprobs = true;
    }

    /// Stores the thoughts of a complete answer if its provider encrypted them. They are written with the
    /// first reasoning item.
    fn expect_thoughts(&mut self, choice: &Json) {
        let message = choice.field("message");
        let is_reasoning = |item: &Json| item.is_text("type", "reasoning");
        let is_in_order = message.list(CONTENT_BLOCKS).iter().any(|block| block.is_text("type", "thinking"));
        if !is_in_order && items::of(&message).iter().any(is_reasoning) {
            self.has_thoughts = true;
            self.thoughts = REASONING.iter().find_map(|key| message.text(key)).map(String::from);
        }
    }

    /// Converts a chunk to events.
    pub fn write(&mut self, chunk: &Json) -> Vec<Json> {
        let mut events = Vec::new();
        self.begin(&mut events);
        if let Some(given) = response::usage_of(chunk) {
            self.usage = usage::write(&given);
        }
        // A response has one choice.
        let Some(choice) = response::first_choice(chunk) else {
            self.has_others |= chunk.get("choices").is_some_and(|choices| !choices.is_empty());
            return events;
        };
        self.has_first = true;
        let delta = choice.field("delta");
        if let Some(reason) = choice.text("finish_reason").filter(|reason| !reason.is_empty()) {
            self.finish = reason.into();
        }
        if self.resource.is_compaction {
            self.summary.push_str(&message::text_of(&delta));
            return events;
        }
        for block in delta.list(CONTENT_BLOCKS) {
            match items::of_block(&block) {
                Some(item) => self.foreign(item, &mut events),
                None => self.blocks.push(block.deep_clone()),
            }
        }
        let thought = event::joined_reasoning(&delta, &mut self.reasoning);
        if !thought.is_empty() && !self.has_thoughts {
            self.think(&thought, &mut events);
        }
        let annotations = delta.list("annotations");
        self.annotations.extend(annotations.iter().map(output::annotation));
        if !self.has_logprobs {
            self.logprobs.extend(logprobs_of(&choice));
        }
        let text = message::text_of(&delta);
        if !text.is_empty() {
            self.add_text(&text, &mut events);
        }
        self.cite(&mut events);
        if let Some(refusal) = delta.text("refusal").filter(|text| !text.is_empty()) {
            self.refuse(&refusal, &mut events);
        }
        for (place, chunk) in delta.list("tool_calls").iter().enumerate() {
            self.call(place, chunk, &mut events);
        }
        events
    }

    /// Returns `true` if all chunks so far belong to choices other than the first. They cannot become a
    /// response.
    pub fn lacks_first_choice(&self) -> bool {
        self.has_others && !self.has_first
    }

    /// Returns the events of the end. The last one contains the whole response.
    pub fn end(&mut self) -> Vec<Json> {
        let mut events = Vec::new();
        if self.resource.is_compaction && self.summary.is_empty() {
            return self.fail("server_error", NO_SUMMARY);
        }
        self.begin(&mut events);
        if self.resource.is_compaction {
            let item = output::compaction(&std::mem::take(&mut self.summary));
            self.foreign(item, &mut events);
        }
        let (status, name) = match incomplete_reason(&self.finish) {
            Some(_) => ("incomplete", "response.incomplete"),
            None => ("completed", "response.completed"),
        };
        self.close_all(status, &mut events);
        self.flush_encrypted(&mut events);
        let response = self.response(&ResponseState::Finished(self.finish.clone()));
        events.push(self.event(name, vec![("response", response)]));
        events
    }

    /// Returns the events of an error during the answer: `error`, then `response.failed` with the items so
    /// far.
    pub fn fail(&mut self, code: &str, message: &str) -> Vec<Json> {
        let mut events = Vec::new();
        self.begin(&mut events);
        self.close_all("incomplete", &mut events);
        let error = vec![("code", code.into()), ("message", message.into()), ("param", Json::Null)];
        events.push(self.event("error", error));
        let error = Json::from([("code", code.into()), ("message", message.into())]);
        let response = self.response(&ResponseState::Failed(error));
        events.push(self.event("response.failed", vec![("response", response)]));
        events
    }

    /// Returns the events of an error, with items that another writer produced.
    pub fn fail_with(&mut self, code: &str, message: &str, items: &[Json]) -> Vec<Json> {
        let error = vec![("code", code.into()), ("message", message.into()), ("param", Json::Null)];
        let event = self.event("error", error);
        let error = Json::from([("code", code.into()), ("message", message.into())]);
        let response = self.resource.with(items, &self.usage, &ResponseState::Failed(error));
        vec![event, self.event("response.failed", vec![("response", response)])]
    }

    /// Returns the events for an event that a plugin emitted.
    pub fn emitted(&mut self, event: Json) -> Vec<Json> {
        let mut events = Vec::new();
        self.begin(&mut events);
        events.push(self.event("valvehouse:event", vec![("event", event)]));
        events
    }

    fn items(&self) -> Vec<Json> {
        self.items.iter().map(|item| self.item(item)).collect()
    }

    fn begin(&mut self, events: &mut Vec<Json>) {
        let before = std::mem::replace(&mut self.stage, Stage::Begun);
        if before == Stage::New {
            events.push(self.stated("response.created", &ResponseState::InProgress));
        }
        if before != Stage::Begun {
            events.push(self.stated("response.in_progress", &ResponseState::InProgress));
        }
    }

    fn response(&self, end: &ResponseState) -> Json {
        self.resource.with(&self.items(), &self.usage, end)
    }

    /// Returns an event that contains the response without items.
    fn stated(&mut self, name: &str, end: &ResponseState) -> Json {
        let response = self.resource.with(&[], &self.usage, end);
        self.event(name, vec![("response", response)])
    }

    fn event(&mut self, name: &str, fields: Vec<(&str, Json)>) -> Json {
        let own = [("type", name.into()), ("sequence_number", self.sequence.into())];
        self.sequence += 1;
        Json::from_fields(own.into_iter().chain(fields))
    }

    /// Returns an event about an item, with `output_index` and `item_id`.
    fn event_of(&mut self, name: &str, at: usize, fields: Vec<(&str, Json)>) -> Json {
        let id = self.items[at].id.as_str().into();
        let place = vec![("output_index", at.into()), ("item_id", id)];
        self.event(name, place.into_iter().chain(fields).collect())
    }

    fn open(&mut self, prefix: &str, kind: Kind, events: &mut Vec<Json>) -> usize {
        let at = self.items.len();
        self.items.push(Item { id: new_id(prefix), kind, status: OPEN });
        let item = self.item(&self.items[at]);
        events.push(
            self.event("response.output_item.added", vec![("output_index", at.into()), ("item", item)]),
        );
        at
    }

    /// Writes an item of a provider that is called over the Responses API itself.
    fn foreign(&mut self, item: Json, events: &mut Vec<Json>) {
        if item.is_text("type", "reasoning") {
            if let Some(thoughts) = self.thoughts.take().filter(|text| !text.is_empty()) {
                self.think(&thoughts, events);
            }
            let open = self.last_open(|kind| matches!(kind, Kind::Reasoning { encrypted: None, .. }));
            match open.and_then(|at| self.items.get_mut(at)) {
                Some(Item { kind: Kind::Reasoning { encrypted, .. }, .. }) => *encrypted = Some(item),
                _ => self.encrypted.push_back(item),
            }
            return;
        }
        self.close_texts(events);
        self.flush_encrypted(events);
        if item.is_text("type", MESSAGE) {
            self.phase = phase_of(&item);
            return;
        }
        let id = item.text("id").map_or_else(|| new_id("item"), String::from);
        let at = self.items.len();
        self.items.push(Item { id, kind: Kind::Foreign(item), status: OPEN });
        let item = self.item(&self.items[at]);
        events.push(
            self.event("response.output_item.added", vec![("output_index", at.into()), ("item", item)]),
        );
        self.close(at, "completed", events);
    }

    /// Writes the encrypted reasoning items that have no text.
    fn flush_encrypted(&mut self, events: &mut Vec<Json>) {
        while let Some(item) = self.encrypted.pop_front() {
            let kind = Kind::Reasoning { text: String::new(), encrypted: Some(item) };
            let at = self.open("rs", kind, events);
            self.close(at, "completed", events);
        }
    }

    fn think(&mut self, text: &str, events: &mut Vec<Json>) {
        // Text that follows encrypted reasoning belongs to a new item.
        let at = self.last_open(|kind| matches!(kind, Kind::Reasoning { encrypted: None, .. }));
        let at = at.unwrap_or_else(|| {
            self.close_texts(events);
            let at = self.open("rs", Kind::Reasoning { text: String::new(), encrypted: None }, events);
            let part = output::reasoning_part("", self.resource.with_summary);
            events.push(self.event_of(
                self.thought_event("part.added"),
                at,
                self.thought_at(vec![("part", part)]),
            ));
            at
        });
        if let Kind::Reasoning { text: all, .. } = &mut self.items[at].kind {
            all.push_str(text);
        }
        let delta = self.thought_at(vec![("delta", text.into())]);
        events.push(self.event_of(self.thought_event("text.delta"), at, delta));
    }

    /// Returns the name of an event about reasoning: about its text, or about the summary that is sent
    /// instead.
    fn thought_event(&self, kind: &str) -> &'static str {
        match (self.resource.with_summary, kind) {
            (true, "part.added") => "response.reasoning_summary_part.added",
            (true, "part.done") => "response.reasoning_summary_part.done",
            (true, "text.delta") => "response.reasoning_summary_text.delta",
            (true, _) => "response.reasoning_summary_text.done",
            (false, "part.added") => "response.content_part.added",
            (false, "part.done") => "response.content_part.done",
            (false, "text.delta") => "response.reasoning_text.delta",
            (false, _) => "response.reasoning_text.done",
        }
    }

    /// Returns the fields of an event about a part of the reasoning, with the index of the part.
    fn thought_at(&self, fields: Vec<(&'static str, Json)>) -> Vec<(&'static str, Json)> {
        let index = if self.resource.with_summary { "summary_index" } else { "content_index" };
        [(index, 0_i64.into())].into_iter().chain(fields).collect()
    }

    /// Returns the index of the open message, or opens one. The text is the first part of a message, so text
    /// after a refusal starts another message.
    fn message(&mut self, is: impl Fn(&Kind) -> bool, events: &mut Vec<Json>) -> usize {
        self.last_open(is).unwrap_or_else(|| {
            self.close_texts(events);
            self.flush_encrypted(events);
            let phase = self.phase.take();
            self.open("msg", Kind::Message { text: None, refusal: None, phase }, events)
        })
    }

    fn add_text(&mut self, chunk: &str, events: &mut Vec<Json>) {
        let at = self.message(|kind| matches!(kind, Kind::Message { refusal: None, .. }), events);
        let logprobs = std::mem::take(&mut self.logprobs);
        let Kind::Message { text, .. } = &mut self.items[at].kind else { return };
        let is_first = text.is_none();
        let text = text.get_or_insert_default();
        text.text.push_str(chunk);
        text.logprobs.extend(logprobs.iter().cloned());
        if is_first {
            let part = Text::default().part();
            events.push(self.event_of("response.content_part.added", at, part_at(0, part)));
        }
        let delta =
            vec![("content_index", 0_i64.into()), ("delta", chunk.into()), ("logprobs", logprobs.into())];
        events.push(self.event_of("response.output_text.delta", at, delta));
    }

    /// Writes the sources and the log probabilities that arrived after their text. Without a text, they wait
    /// for one.
    fn cite(&mut self, events: &mut Vec<Json>) {
        if self.annotations.is_empty() && self.logprobs.is_empty() {
            return;
        }
        let Some(at) = self.last_open(|kind| matches!(kind, Kind::Message { text: Some(_), .. })) else {
            return;
        };
        let (annotations, logprobs) =
            (std::mem::take(&mut self.annotations), std::mem::take(&mut self.logprobs));
        let Kind::Message { text: Some(text), .. } = &mut self.items[at].kind else { return };
        text.logprobs.extend(logprobs);
        let first = text.annotations.len();
        text.annotations.extend(annotations.iter().cloned());
        for (number, annotation) in annotations.into_iter().enumerate() {
            let fields = vec![
                ("content_index", 0_i64.into()),
                ("annotation_index", (first + number).into()),
                ("annotation", annotation),
            ];
            events.push(self.event_of("response.output_text.annotation.added", at, fields));
        }
    }

    fn refuse(&mut self, chunk: &str, events: &mut Vec<Json>) {
        let at = self.message(|kind| matches!(kind, Kind::Message { .. }), events);
        let Kind::Message { text, refusal, .. } = &mut self.items[at].kind else { return };
        let (is_first, index) = (refusal.is_none(), usize::from(text.is_some()));
        refusal.get_or_insert_default().push_str(chunk);
        if is_first {
            events.push(self.event_of(
                "response.content_part.added",
                at,
                part_at(index, output::refusal_part("")),
            ));
        }
        let delta = vec![("content_index", index.into()), ("delta", chunk.into())];
        events.push(self.event_of("response.refusal.delta", at, delta));
    }

    fn call(&mut self, place: usize, chunk: &Json, events: &mut Vec<Json>) {
        let given = chunk.integer("index");
        let index = given.unwrap_or_else(|| i64::try_from(place).unwrap_or(0));
        let custom = chunk.get("custom").filter(|custom| !custom.is_null());
        let is_own = |item: &Item| matches!(&item.kind, Kind::Call { index: own, .. } if *own == index);
        let at = self.items.iter().position(is_own);
        let is_custom = custom.is_some();
        let called = custom.unwrap_or_else(|| chunk.field("function"));
        let at = at.unwrap_or_else(|| {
            self.close_texts(events);
            self.flush_encrypted(events);
            self.close_whole_calls(events);
            let call_id = chunk.text("id").filter(|id| !id.is_empty());
            let call_id = call_id.map_or_else(|| new_id("call"), String::from);
            let name = called.string("name");
            let prefix = if is_custom { "ctc" } else { "fc" };
            self.open(prefix, Kind::Call { index, call_id, name, given: String::new(), is_custom }, events)
        });
        let more = match called.get("arguments").unwrap_or_else(|| called.field("input")) {
            Json::Text(text) => text.to_string(),
            Json::Null => String::new(),
            // Some providers send an object instead of a text.
            other => other.to_string(),
        };
        // The arguments were complete, so only white space can follow.
        if self.items[at].status != OPEN {
            return;
        }
        let Kind::Call { given, is_custom, .. } = &mut self.items[at].kind else { return };
        given.push_str(&more);
        let name = match is_custom {
            true => "response.custom_tool_call_input.delta",
            false => "response.function_call_arguments.delta",
        };
        if !more.is_empty() {
            events.push(self.event_of(name, at, vec![("delta", more.into())]));
        }
    }

    fn last_open(&self, is: impl Fn(&Kind) -> bool) -> Option<usize> {
        self.items.iter().rposition(|item| item.status == OPEN && is(&item.kind))
    }

    /// Closes the calls whose arguments are complete, because another call starts: a client can run each call
    /// as soon as it is closed. Incomplete arguments and the input of custom tools may still grow.
    fn close_whole_calls(&mut self, events: &mut Vec<Json>) {
        for at in 0..self.items.len() {
            let Kind::Call { given, is_custom: false, .. } = &self.items[at].kind else { continue };
            // Some providers send `{}` first and then the arguments.
            if self.items[at].status == OPEN
                && given.len() > 2
                && Json::parse(given.as_bytes()).is_ok_and(|given| given.as_object().is_some())
            {
                self.close(at, "completed", events);
            }
        }
    }

    /// Closes texts and thoughts, because another item starts. Calls may still grow.
    fn close_texts(&mut self, events: &mut Vec<Json>) {
        for at in 0..self.items.len() {
            if !matches!(self.items[at].kind, Kind::Call { .. }) {
                self.close(at, "completed", events);
            }
        }
    }

    fn close_all(&mut self, status: &'static str, events: &mut Vec<Json>) {
        (0..self.items.len()).for_each(|at| self.close(at, status, events));
    }

    fn close(&mut self, at: usize, status: &'static str, events: &mut Vec<Json>) {
        if self.items[at].status != OPEN {
            return;
        }
        self.items[at].status = status;
        if let Kind::Call { given, is_custom: false, .. } = &mut self.items[at].kind
            && given.trim().is_empty()
            && status == "completed"
        {
            // Clients parse the arguments of tools without parameters, too.
            given.push_str("{}");
            let delta = vec![("delta", "{}".into())];
            events.push(self.event_of("response.function_call_arguments.delta", at, delta));
        }
        match &self.items[at].kind {
            Kind::Foreign(_) => {}
            // Reasoning without text has no open part.
            Kind::Reasoning { text, .. } if text.is_empty() => {}
            Kind::Reasoning { text, .. } => {
                let text = text.clone();
                let done = self.thought_at(vec![("text", text.as_str().into())]);
                events.push(self.event_of(self.thought_event("text.done"), at, done));
                let part = output::reasoning_part(&text, self.resource.with_summary);
                let done = self.thought_at(vec![("part", part)]);
                events.push(self.event_of(self.thought_event("part.done"), at, done));
            }
            Kind::Message { text, refusal, .. } => {
                let (text, refusal) = (text.clone(), refusal.clone());
                if let Some(text) = &text {
                    let done = vec![
                        ("content_index", 0_i64.into()),
                        ("text", text.text.as_str().into()),
                        ("logprobs", text.logprobs.clone().into()),
                    ];
                    events.push(self.event_of("response.output_text.done", at, done));
                    let part = text.part();
                    events.push(self.event_of("response.content_part.done", at, part_at(0, part)));
                }
                if let Some(refusal) = &refusal {
                    let index = usize::from(text.is_some());
                    let done = vec![("content_index", index.into()), ("refusal", refusal.as_str().into())];
                    events.push(self.event_of("response.refusal.done", at, done));
                    let part = output::refusal_part(refusal);
                    events.push(self.event_of("response.content_part.done", at, part_at(index, part)));
                }
            }
            Kind::Call { name, given, is_custom, .. } => {
                let (name, given, is_custom) = (name.clone(), given.clone(), *is_custom);
                if is_custom {
                    let done = vec![("input", given.into())];
                    events.push(self.event_of("response.custom_tool_call_input.done", at, done));
                } else {
                    let name = self.spaces.get(&name).map_or(name, |(_, name)| name.clone());
                    let done = vec![("name", name.into()), ("arguments", given.into())];
                    events.push(self.event_of("response.function_call_arguments.done", at, done));
                }
            }
        }
        let item = self.item(&self.items[at]);
        events
            .push(self.event("response.output_item.done", vec![("output_index", at.into()), ("item", item)]));
    }

    fn item(&self, item: &Item) -> Json {
        let status = item.status;
        match &item.kind {
            Kind::Foreign(item) => item.clone(),
            Kind::Reasoning { text, encrypted: Some(encrypted) } => {
                output::encrypted_reasoning(&item.id, text, encrypted, &self.resource, status)
            }
            Kind::Reasoning { text, encrypted: None } => {
                let blocks = (!self.blocks.is_empty()).then(|| Json::from(self.blocks.clone()));
                output::reasoning(&item.id, text, blocks.as_ref(), &self.resource, status)
            }
            Kind::Message { text, refusal, phase } => {
                let text = text.as_ref().map(Text::part);
                let parts = text.into_iter().chain(refusal.as_deref().map(output::refusal_part));
                output::message(&item.id, parts.collect(), *phase, status)
            }
            Kind::Call { call_id, name, given, is_custom, .. } => {
                output::call(&item.id, call_id, name, given, *is_custom, status, &self.spaces)
            }
        }
    }
}

fn part_at(index: usize, part: Json) -> Vec<(&'static str, Json)> {
    vec![("content_index", index.into()), ("part", part)]
}

/// Returns the log probabilities of the tokens of a choice or of a chunk of it.
fn logprobs_of(choice: &Json) -> Vec<Json> {
    choice.at_path("logprobs.content").items().iter().map(output::logprob).collect()
}
