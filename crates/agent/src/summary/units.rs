//! Division of a conversation into system messages and units that are sent or omitted as a whole, and the
//! persistent state of the summarization.

use super::settings::NAME;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use valvehouse_core::chat::ModelCall;
use valvehouse_core::chat::history::is_role;
use valvehouse_core::context::Turn;
use valvehouse_json::Json;
use valvehouse_tokens::Counter;

/// A message, or an assistant's tool calls with all their results.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) messages: Vec<Json>,
    /// The position of the first message in the conversation, in which system messages are not counted.
    pub(super) from: u64,
    /// The position after its last message.
    pub(super) to: u64,
    /// Its index among the units.
    pub(super) index: usize,
    pub(super) tokens: usize,
}

/// The messages of a model call.
pub(super) struct Talk {
    pub(super) system: Vec<Json>,
    pub(super) system_tokens: usize,
    pub(super) units: Vec<Unit>,
    /// The position after the last message.
    pub(super) end: u64,
}

impl Talk {
    /// Divides messages; the first one other than a system message has the position `offset`. System messages
    /// have no position of their own, because clients replace and repeat them.
    pub(super) fn of(messages: &[Json], offset: u64, preserve_system: bool, count: &Counts) -> Self {
        let mut talk = Self { system: Vec::new(), system_tokens: 0, units: Vec::new(), end: offset };
        let mut open: Vec<String> = Vec::new();
        for message in messages {
            let tokens = count.of(message);
            let from = talk.end;
            if is_system(message) && preserve_system {
                talk.system.push(message.clone());
                talk.system_tokens += tokens;
                continue;
            }
            let to = from + u64::from(!is_system(message));
            talk.end = to;
            let answers = is_role(message, "tool").then(|| message.text_or_empty("tool_call_id"));
            let answered = answers.and_then(|id| open.iter().position(|call| *call == *id));
            if let (Some(answered), Some(unit)) = (answered, talk.units.last_mut()) {
                open.swap_remove(answered);
                unit.messages.push(message.clone());
                unit.to = to;
                unit.tokens += tokens;
                continue;
            }
            open = ModelCall::all(message).into_iter().map(|call| call.id.into()).collect();
            let index = talk.units.len();
            talk.units.push(Unit { messages: vec![message.clone()], from, to, index, tokens });
        }
        talk
    }
}

impl Unit {
    /// Returns `true` for the result of a call that is not present.
    pub(super) fn is_orphan(&self) -> bool {
        self.messages.first().is_some_and(|message| is_role(message, "tool"))
    }
}

pub(super) fn is_system(message: &Json) -> bool {
    is_role(message, "system") || is_role(message, "developer")
}

/// Returns the number of messages in units.
pub(super) fn messages_in(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.messages.len()).sum()
}

/// Returns the number of tokens in units.
pub(super) fn tokens_in(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.tokens).sum()
}

/// The number of bytes that almost no token exceeds.
const MAX_TOKEN: usize = 32;

/// A token counter that counts each message once per turn.
pub(super) struct Counts {
    model: String,
    counter: Counter,
    known: Arc<TokenCache>,
}

#[derive(Default)]
struct TokenCache {
    hasher: RandomState,
    tokens: Mutex<HashMap<u64, usize>>,
}

impl Counts {
    pub(super) fn new(model: &str, turn: &Turn) -> Self {
        let counter = Counter::of(model).with_media();
        Self { model: model.to_owned(), counter, known: turn.local() }
    }

    /// Returns the number of tokens of a message.
    pub(super) fn of(&self, message: &Json) -> usize {
        let key = self.known.hasher.hash_one((&self.model, message.to_string()));
        let known = self.known.tokens.lock().get(&key).copied();
        known.unwrap_or_else(|| {
            let tokens = self.counter.message(message);
            self.known.tokens.lock().insert(key, tokens);
            tokens
        })
    }

    /// Returns the number of tokens of a text.
    pub(super) fn of_text(&self, text: &str) -> usize {
        self.counter.text(text)
    }

    /// Truncates a text to this many tokens.
    pub(super) fn cut(&self, text: &str, most: usize) -> String {
        // A very long text is shortened without counting its tokens.
        let mut text = text[..text.floor_char_boundary(most.saturating_mul(MAX_TOKEN))].to_owned();
        loop {
            let tokens = self.of_text(&text);
            if tokens <= most || text.is_empty() {
                return text;
            }
            // Cutting slightly below the proportional share keeps the number of iterations low.
            let share = text.len() * most / tokens;
            text.truncate(text.floor_char_boundary((share - share / 16).min(text.len() - 1)));
        }
    }
}

/// The summary so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SummaryState {
    pub(super) summary: Option<String>,
    /// The number of messages of the conversation that the summary covers.
    pub(super) covers: u64,
    /// The reason why the last summary failed, and the length of the conversation at that time.
    pub(super) failed: Option<(String, u64)>,
}

/// Returns the position in the conversation of the first given message.
pub(super) fn offset(turn: &Turn) -> u64 {
    number(&turn.state(NAME), "offset")
}

impl SummaryState {
    /// Returns the state for this turn. A summary that covers more messages than exist belongs to another
    /// conversation.
    pub(super) fn of(turn: &Turn, end: u64) -> Self {
        let state = turn.state(NAME);
        let (summary, covers) = (state.text_or_empty("summary"), number(&state, "covers"));
        let failed = state.text("failed").map(|why| (why.into(), number(&state, "failed_at")));
        let failed = failed.filter(|(_, at)| *at <= end);
        if summary.is_empty() || covers == 0 || covers > end {
            return Self { failed, ..Self::default() };
        }
        Self { summary: Some(summary.into()), covers, failed }
    }

    /// Returns the number of these units that the summary covers.
    pub(super) fn covered(&self, units: &[Unit]) -> usize {
        units.iter().take_while(|unit| self.has_covered(unit)).count()
    }

    /// Returns `true` if the summary replaces a unit.
    pub(super) fn has_covered(&self, unit: &Unit) -> bool {
        // A system message at the end of the covered part may have come after it.
        self.summary.is_some() && unit.to <= self.covers && unit.from < self.covers
    }

    /// Stores the state.
    pub(super) fn keep(&self, turn: &Turn, compressed: bool) {
        let state = turn.state(NAME);
        // Only this filter and the store of the conversation write to the object, so the writes cannot fail.
        state.edit("summary", self.summary.as_deref().unwrap_or(""));
        state.edit("covers", self.covers);
        state.edit("offset", number(&state, "offset"));
        state.edit("compressed", compressed);
        match &self.failed {
            Some((why, at)) => {
                state.edit("failed", why.as_str());
                state.edit("failed_at", *at);
            }
            None => {
                state.remove("failed");
                state.remove("failed_at");
            }
        }
    }
}

/// Messages that are neither sent nor summarized; system messages are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LeftOut {
    pub(super) messages: usize,
    pub(super) tokens: usize,
}

impl LeftOut {
    /// Reads those before the given messages: the store of the conversation did not read them.
    pub(super) fn before(turn: &Turn) -> Self {
        Self::of(&turn.state(NAME).field("before"))
    }

    pub(super) fn of(value: &Json) -> Self {
        Self { messages: number(value, "messages") as usize, tokens: number(value, "tokens") as usize }
    }

    pub(super) fn and(self, unit: &Unit) -> Self {
        Self { messages: self.messages + unit.messages.len(), tokens: self.tokens + unit.tokens }
    }

    fn to_json(self) -> Json {
        Json::from([("messages", (self.messages as u64).into()), ("tokens", (self.tokens as u64).into())])
    }
}

/// Stores the position of the first message that is still needed, and what the ones before it amount to.
pub(super) fn shown_from(turn: &Turn, shown: Option<(u64, LeftOut)>) {
    let state = turn.state(NAME);
    if let Some((place, left_out)) = shown {
        state.edit("shown_from", place);
        state.edit("left_out", left_out.to_json());
    } else {
        state.remove("shown_from");
        state.remove("left_out");
    }
}

pub(super) fn number(state: &Json, key: &str) -> u64 {
    state.count(key)
}
