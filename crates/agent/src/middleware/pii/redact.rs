//! Redaction of personal data anywhere in a value.

use super::find::{Kind, find};
use crate::middleware::typed::PiiStrategy;
use compact_str::CompactString;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::BTreeSet;
use valvehouse_core::text::hex;
use valvehouse_json::{Json, Object};

/// The number of characters that a mask leaves visible.
const LEFT: usize = 4;

pub(super) struct Settings {
    pub(super) strategy: PiiStrategy,
    pub(super) kinds: Vec<Kind>,
    pub(super) key: Vec<u8>,
}

/// A redacted value, with the kinds found in it.
pub(super) struct RedactedValue {
    pub(super) value: Json,
    pub(super) found: BTreeSet<Kind>,
}

impl Settings {
    /// Redacts an entire value.
    pub(super) fn redact(&self, value: &Json) -> RedactedValue {
        let mut found = BTreeSet::new();
        let value = self.walk(value, &mut found);
        RedactedValue { value, found }
    }

    /// Redacts messages, preserving the ids that connect calls to their results.
    pub(super) fn redact_in_messages(&self, messages: &Json) -> RedactedValue {
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

    /// Redacts a value recursively. It was parsed from text, so it is a tree of limited depth.
    fn walk(&self, value: &Json, found: &mut BTreeSet<Kind>) -> Json {
        match value {
            Json::Text(text) => self.text(text, found).into(),
            // A card number may be sent as a number.
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
            // The arguments of a call are JSON in a string, in which letters can be escaped.
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
            PiiStrategy::Warn => found.to_owned(),
            PiiStrategy::Block | PiiStrategy::Redact => format!("[{}]", kind.name()),
            PiiStrategy::Mask => masked(found, kind),
            PiiStrategy::Hash => format!("[{}:{}]", kind.name(), self.hash(found)),
        }
    }

    /// Returns twelve hexadecimal digits of the keyed hash of a text.
    fn hash(&self, text: &str) -> String {
        let mut hash = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key may have any length");
        hash.update(text.as_bytes());
        hex(&hash.finalize().into_bytes()[..6])
    }
}

/// Returns `true` for a file embedded in a text as a data URL, which contains no readable text.
fn is_file(text: &str) -> bool {
    text.starts_with("data:") && text.contains(";base64,") && !text.contains(char::is_whitespace)
}

/// Returns masked data, such as `a***@example.org` or `***************1111`.
fn masked(found: &str, kind: Kind) -> String {
    if let (Kind::Email, Some((name, domain))) = (kind, found.split_once('@')) {
        let first = name.chars().next().unwrap_or('*');
        return format!("{first}***@{domain}");
    }
    let hidden = found.chars().count().saturating_sub(LEFT);
    found.chars().enumerate().map(|(place, letter)| if place < hidden { '*' } else { letter }).collect()
}
