//! The facts about a text that need no copy of it: its length, and a digest to compare it by.

use crate::words::hex;
use sha2::{Digest, Sha256};
use valvehouse_json::Json;

/// The seal of a text that grows.
#[derive(Debug, Clone, Default)]
pub(super) struct Seal {
    length: usize,
    hash: Sha256,
}

impl Seal {
    pub(super) fn of(text: &str) -> Self {
        let mut seal = Self::default();
        seal.add(text);
        seal
    }

    pub(super) fn add(&mut self, text: &str) {
        self.length += text.chars().count();
        self.hash.update(text);
    }

    /// Puts the seal on an item: `length` in characters, and `digest`.
    pub(super) fn put_on(&self, item: &Json) {
        let digest = hex(&self.hash.clone().finalize()[..8]);
        // New fields of an object just made: they fit.
        item.edit("length", self.length);
        item.edit("digest", digest);
    }
}

impl Seal {
    /// Returns `true` if an item was sealed for this text; one without a seal fits any.
    pub(super) fn fits(&self, item: &Json) -> bool {
        let own = Json::object();
        self.put_on(&own);
        item.get("digest").is_none()
            || (own.get("length"), own.get("digest")) == (item.get("length"), item.get("digest"))
    }
}

/// The length on an item's seal, in characters.
pub(super) fn length_on(item: &Json) -> usize {
    let length = item.get("length").and_then(|length| length.as_i64()).unwrap_or(0);
    usize::try_from(length).unwrap_or(0)
}

/// Returns `true` if this is the text that an item was sealed for.
pub(super) fn is_for(item: &Json, text: &str) -> bool {
    let own = Json::object();
    Seal::of(text).put_on(&own);
    own.get("length") == item.get("length") && own.get("digest") == item.get("digest")
}

/// So many characters of a text, and the rest.
pub(super) fn split_at(text: &str, characters: usize) -> (&str, &str) {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    text.split_at(end)
}
