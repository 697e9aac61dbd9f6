//! Hides what tells of persons anywhere in a value.

use super::find::{Kind, find};
use compact_str::CompactString;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::BTreeSet;
use valvehouse_core::words::hex;
use valvehouse_json::{Json, Object};

/// Characters of a number that a mask leaves.
const LEFT: usize = 4;

/// The treatment of what is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Strategy {
    /// It stays; the log tells what kinds there were.
    Warn,
    /// Nothing goes on.
    Block,
    /// `[email]`
    Redact,
    /// All but the last characters become `*`.
    Mask,
    /// `[email:1a2b3c4d5e6f]`, the same for the same: a keyed hash, so that nobody can try all numbers.
    Hash,
}

pub(super) struct Settings {
    pub(super) strategy: Strategy,
    pub(super) kinds: Vec<Kind>,
    pub(super) key: Vec<u8>,
}

/// A value without what was found in it.
pub(super) struct RedactedValue {
    pub(super) value: Json,
    pub(super) found: BTreeSet<Kind>,
}

impl Settings {
    /// A value in which everything is looked through.
    pub(super) fn hide(&self, value: &Json) -> RedactedValue {
        let mut found = BTreeSet::new();
        let value = self.walk(value, &mut found);
        RedactedValue { value, found }
    }

    /// Messages; what ties calls to their results stays.
    pub(super) fn hide_in_messages(&self, messages: &Json) -> RedactedValue {
        let mut found = BTreeSet::new();
        let messages = messages.items();
        let messages = messages.iter().map(|message| self.message(message, &mut found)).collect::<Vec<_>>();
        RedactedValue { value: messages.into(), found }
    }

    fn message(&self, message: &Json, found: &mut BTreeSet<Kind>) -> Json {
        let Json::Object(fields) = message else { return self.walk(message, found) };
        let fields = fields.entries().into_iter().map(|(key, value)| match (key.as_str(), &value) {
            ("role" | "tool_call_id", Json::Text(_)) => (key, value),
            ("tool_calls", Json::Array(calls)) => {
                let calls = calls.items().iter().map(|call| self.call(call, found)).collect::<Vec<_>>();
                (key, calls.into())
            }
            _ => self.entry(key, &value, found),
        });
        fields.collect::<Object>().into()
    }

    fn call(&self, call: &Json, found: &mut BTreeSet<Kind>) -> Json {
        let Json::Object(fields) = call else { return self.walk(call, found) };
        let fields = fields.entries().into_iter().map(|(key, value)| match key.as_str() {
            "id" => (key, value),
            _ => self.entry(key, &value, found),
        });
        fields.collect::<Object>().into()
    }

    /// The value was read from text: it is a tree, and not deeper than text may be.
    fn walk(&self, value: &Json, found: &mut BTreeSet<Kind>) -> Json {
        match value {
            Json::Text(text) => self.text(text, found).into(),
            // A card's number may come as a number.
            Json::Number(number) if number.is_integer() => {
                let before = value.to_string();
                let after = self.text(&before, found);
                if after == before { value.clone() } else { after.into() }
            }
            Json::Array(items) => {
                items.items().iter().map(|item| self.walk(item, found)).collect::<Vec<_>>().into()
            }
            Json::Object(object) => object
                .entries()
                .into_iter()
                .map(|(key, value)| self.entry(key, &value, found))
                .collect::<Object>()
                .into(),
            other => other.clone(),
        }
    }

    fn entry(&self, key: CompactString, value: &Json, found: &mut BTreeSet<Kind>) -> (CompactString, Json) {
        let value = match value {
            Json::Text(text) if is_file(text) => value.clone(),
            // A call's arguments are JSON within a text, where an escape may hide a letter.
            Json::Text(text) if key == "arguments" => match Json::parse(text.as_bytes()) {
                Ok(arguments) => {
                    let mut inside = BTreeSet::new();
                    let hidden = self.walk(&arguments, &mut inside);
                    let value = if inside.is_empty() { value.clone() } else { hidden.to_string().into() };
                    found.append(&mut inside);
                    value
                }
                Err(_) => self.text(text, found).into(),
            },
            value => self.walk(value, found),
        };
        (self.text(&key, found).into(), value)
    }

    fn text(&self, text: &str, found: &mut BTreeSet<Kind>) -> String {
        let (mut hidden, mut from) = (String::with_capacity(text.len()), 0);
        for (range, kind) in find(text, &self.kinds) {
            found.insert(kind);
            hidden.push_str(&text[from..range.start]);
            hidden.push_str(&self.instead_of(&text[range.clone()], kind));
            from = range.end;
        }
        hidden.push_str(&text[from..]);
        hidden
    }

    fn instead_of(&self, found: &str, kind: Kind) -> String {
        match self.strategy {
            Strategy::Warn => found.to_owned(),
            Strategy::Block | Strategy::Redact => format!("[{}]", kind.name()),
            Strategy::Mask => masked(found, kind),
            Strategy::Hash => format!("[{}:{}]", kind.name(), self.hash(found)),
        }
    }

    /// Twelve hexadecimal digits that belong to this text and this key.
    fn hash(&self, text: &str) -> String {
        let mut hash = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key may have any length");
        hash.update(text.as_bytes());
        hex(&hash.finalize().into_bytes()[..6])
    }
}

/// A file within a text, which says nothing to a reader.
fn is_file(text: &str) -> bool {
    text.starts_with("data:") && text.contains(";base64,") && !text.contains(char::is_whitespace)
}

/// `a***@example.org`, `***************1111`.
fn masked(found: &str, kind: Kind) -> String {
    if let (Kind::Email, Some((name, domain))) = (kind, found.split_once('@')) {
        let first = name.chars().next().unwrap_or('*');
        return format!("{first}***@{domain}");
    }
    let hidden = found.chars().count().saturating_sub(LEFT);
    found.chars().enumerate().map(|(place, letter)| if place < hidden { '*' } else { letter }).collect()
}
