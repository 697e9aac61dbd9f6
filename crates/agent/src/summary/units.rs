//! A conversation taken apart: system messages, and units that are kept or left out as a whole.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use valvehouse_core::chat::Call;
use valvehouse_core::chat::history::is_role;
use valvehouse_core::context::Turn;
use valvehouse_json::Json;
use valvehouse_tokens::Counter;

/// A message, or an assistant's tool calls with all their results.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) messages: Vec<Json>,
    /// Its place in the conversation.
    pub(super) from: u64,
    /// The place after its last message.
    pub(super) to: u64,
    pub(super) tokens: usize,
}

/// The messages of a model call.
pub(super) struct Talk {
    pub(super) system: Vec<Json>,
    pub(super) system_tokens: usize,
    pub(super) units: Vec<Unit>,
    /// The place after the last message.
    pub(super) end: u64,
}

impl Talk {
    /// Takes messages apart; the first that is not a system message has the place `offset`.
    pub(super) fn of(messages: &[Json], offset: u64, preserve_system: bool, count: &Counts) -> Self {
        let leading = messages.iter().take_while(|message| is_system(message)).count();
        let mut talk = Self { system: Vec::new(), system_tokens: 0, units: Vec::new(), end: offset };
        let mut open: Vec<String> = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let tokens = count.of(message);
            let from = (offset + index as u64).saturating_sub(leading as u64);
            if is_system(message) && preserve_system {
                talk.system.push(message.clone());
                talk.system_tokens += tokens;
                continue;
            }
            // A message before the conversation has no place in it.
            let to = if index < leading { from } else { from + 1 };
            talk.end = talk.end.max(to);
            let answers = is_role(message, "tool").then(|| message.text_or_empty("tool_call_id"));
            let answered = answers.and_then(|id| open.iter().position(|call| *call == *id));
            if let (Some(answered), Some(unit)) = (answered, talk.units.last_mut()) {
                open.swap_remove(answered);
                unit.messages.push(message.clone());
                unit.to = to;
                unit.tokens += tokens;
                continue;
            }
            open = Call::all(message).into_iter().map(|call| call.id.into()).collect();
            talk.units.push(Unit { messages: vec![message.clone()], from, to, tokens });
        }
        talk
    }
}

impl Unit {
    /// Returns `true` if it is the result of a call that is not there.
    pub(super) fn is_orphan(&self) -> bool {
        self.messages.first().is_some_and(|message| is_role(message, "tool"))
    }
}

pub(super) fn is_system(message: &Json) -> bool {
    is_role(message, "system") || is_role(message, "developer")
}

/// Messages of some units.
pub(super) fn messages_in(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.messages.len()).sum()
}

/// Tokens of some units.
pub(super) fn tokens_in(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.tokens).sum()
}

/// Bytes that hardly any token has.
const MAX_TOKEN: usize = 32;

/// Counts tokens, each message once a turn.
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

    /// The tokens of a message.
    pub(super) fn of(&self, message: &Json) -> usize {
        let key = self.known.hasher.hash_one((&self.model, message.to_string()));
        let known = self.known.tokens.lock().get(&key).copied();
        known.unwrap_or_else(|| {
            let tokens = self.counter.message(message);
            self.known.tokens.lock().insert(key, tokens);
            tokens
        })
    }

    /// The tokens of a text.
    pub(super) fn of_text(&self, text: &str) -> usize {
        self.counter.text(text)
    }

    /// A text cut to so many tokens.
    pub(super) fn cut(&self, text: &str, most: usize) -> String {
        // A text that is far too long is not worth counting.
        let mut text = text[..text.floor_char_boundary(most.saturating_mul(MAX_TOKEN))].to_owned();
        loop {
            let tokens = self.of_text(&text);
            if tokens <= most || text.is_empty() {
                return text;
            }
            // A little less than its share, so that few rounds do.
            let share = text.len() * most / tokens;
            text.truncate(text.floor_char_boundary((share - share / 16).min(text.len() - 1)));
        }
    }
}
