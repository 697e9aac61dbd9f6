//! The content blocks of an assistant message: what its service sent beside texts, thinking and calls, and the order
//! of its blocks.
//!
//! A block stores the length and a digest of its text instead of a copy, so that a redaction cannot miss one.

use super::event;
use super::message::{self, TEXT_BREAK};
use crate::text::hex;
use compact_str::CompactString;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use valvehouse_json::Json;

/// The message field that holds its blocks without their text, thinking and calls.
pub const CONTENT_BLOCKS: &str = "content_blocks";

/// Fields of a remembered block that locate its text.
pub const SEAL: [&str; 4] = ["type", "index", "length", "digest"];

/// Returns the model's thinking from any of the field names that providers use.
fn thinking_of(message: &Json) -> String {
    event::thinking_of(message).unwrap_or_else(|| thinking_in(&message.field("content")))
}

/// Returns the thinking in the parts of a content.
pub fn thinking_in(content: &Json) -> String {
    let parts = content.items().into_iter().filter(|part| is(part, "thinking"));
    let texts = parts.map(|part| match part.get("thinking") {
        Some(Json::Text(text)) => text.into(),
        thinking => message::text_of(&Json::from([("content", thinking.into())])),
    });
    texts.collect::<Vec<CompactString>>().concat()
}

fn is(item: &Json, kind: &str) -> bool {
    item.is_text("type", kind)
}

/// The text or the thinking of a message, split into the texts of its remembered blocks.
#[derive(Debug)]
pub struct BlockTexts {
    /// The text of each remaining remembered block, and `true` if it is unchanged since it was sealed.
    chunks: VecDeque<(String, bool)>,
    /// Text inserted between two blocks, and the number of blocks after it.
    added: Option<(usize, String)>,
    /// The text after the last block.
    pub rest: String,
}

impl BlockTexts {
    /// Splits the texts of a message for its blocks of a kind, `text` or `thinking`. Blocks of thinking are paragraphs in
    /// their message. Leading and trailing blocks whose text is unchanged keep it; the changed text between them becomes the
    /// text of the last block there.
    pub fn new(kind: &str, message: &Json, items: &[Json]) -> Self {
        let text = match kind {
            "thinking" => thinking_of(message),
            _ => message::text_of(message).into(),
        };
        let own: Vec<&Json> = items.iter().filter(|item| is(item, kind)).collect();
        let mut chunks = VecDeque::with_capacity(own.len());
        let mut rest = text.as_str();
        for item in &own {
            let begin = begin_of(item, rest, rest.len() < text.len());
            let (chunk, after) = split_at(&rest[begin..], length_on(item));
            if !is_for(item, chunk) {
                break;
            }
            chunks.push_back((chunk.to_owned(), true));
            rest = after;
        }
        let changed = &own[chunks.len()..];
        let mut last = Vec::new();
        for item in changed.iter().rev() {
            let length = rest.chars().count();
            let (before, chunk) = match length.checked_sub(length_on(item)) {
                Some(before) => split_at(rest, before),
                None => break,
            };
            if length_on(item) == 0 || !is_for(item, chunk) {
                break;
            }
            last.push((chunk.to_owned(), true));
            rest = match kind {
                "thinking" => before.strip_suffix(TEXT_BREAK).unwrap_or(before),
                _ => before,
            };
        }
        let between = changed.len() - last.len();
        if between > 0 {
            chunks.extend((1..between).map(|_| (String::new(), false)));
            chunks.push_back((std::mem::take(&mut rest).to_owned(), false));
        }
        let is_added = !last.is_empty() && !rest.is_empty();
        let added = is_added.then(|| (last.len(), std::mem::take(&mut rest).to_owned()));
        chunks.extend(last.into_iter().rev());
        if kind == "thinking" && !own.is_empty() {
            rest = rest.strip_prefix(TEXT_BREAK).unwrap_or(rest);
        }
        Self { chunks, added, rest: rest.to_owned() }
    }

    /// Returns the text inserted before the next remembered block.
    pub fn added(&mut self) -> Option<String> {
        let left = self.chunks.len();
        self.added.take_if(|(after, _)| *after == left).map(|(_, text)| text)
    }

    /// Returns the text of the next remembered block, and `true` if it is unchanged since it was sealed.
    pub fn take_next(&mut self) -> (String, bool) {
        self.chunks.pop_front().unwrap_or_default()
    }
}

/// Updates the seals of a message's remembered blocks to its current texts. A block whose text was changed
/// loses its signature and its citations. Returns `true` if a block changed.
pub fn reseal(message: &Json) -> bool {
    let items = message.list(CONTENT_BLOCKS);
    if items.is_empty() {
        return false;
    }
    let mut any = false;
    for kind in ["thinking", "text"] {
        let mut texts = BlockTexts::new(kind, message, &items);
        for item in items.iter().filter(|item| is(item, kind)) {
            let added = texts.added();
            let (text, is_sealed) = texts.take_next();
            if let Some(added) = added {
                // The added text becomes a part of this block.
                let text = [added, text].concat();
                any = true;
                unseal(item, &text);
                continue;
            }
            if is_sealed {
                continue;
            }
            any = true;
            unseal(item, &text);
        }
    }
    any
}

/// Records a text that is about to be prepended to that of a message as a separate block, so that the
/// remembered blocks still match their texts.
pub fn remember_before(message: &Json, text: &str) {
    let mut items = message.list(CONTENT_BLOCKS);
    let Some(at) = items.iter().position(|item| is(item, "text")) else { return };
    let indexes = items.iter().filter_map(|item| item.get("index")?.as_i64());
    let index = indexes.max().map_or(0, |last| last + 1);
    let item = Json::from([("type", "text".into()), ("index", index.into())]);
    Seal::of(text).put_on(&item);
    items.insert(at, item);
    // The value replaces a list, so the write cannot fail.
    message.edit(CONTENT_BLOCKS, items);
}

/// Updates a remembered block to another text.
fn unseal(item: &Json, text: &str) {
    for key in item.keys().iter().filter(|key| !SEAL.contains(&key.as_str())) {
        item.remove(key);
    }
    Seal::of(text).put_on(item);
}

/// The seal of a growing text.
#[derive(Debug, Clone, Default)]
pub struct Seal {
    length: usize,
    hash: Sha256,
}

impl Seal {
    /// Returns the seal of a text.
    pub fn of(text: &str) -> Self {
        let mut seal = Self::default();
        seal.add(text);
        seal
    }

    /// Adds text.
    pub fn add(&mut self, text: &str) {
        self.length += text.chars().count();
        self.hash.update(text);
    }

    /// Writes the seal to an item: `length` in characters, and `digest`.
    pub fn put_on(&self, item: &Json) {
        let digest = hex(&self.hash.clone().finalize()[..8]);
        // The fields are new in an object created above, so the writes cannot fail.
        item.edit("length", self.length);
        item.edit("digest", digest);
    }

    /// Returns `true` if an item is sealed for this text or has no seal.
    pub fn fits(&self, item: &Json) -> bool {
        let own = Json::object();
        self.put_on(&own);
        item.get("digest").is_none()
            || (own.get("length"), own.get("digest")) == (item.get("length"), item.get("digest"))
    }
}

/// Returns the length in an item's seal, in characters.
pub fn length_on(item: &Json) -> usize {
    let length = item.integer("length").unwrap_or(0);
    usize::try_from(length).unwrap_or(0)
}

/// Returns the position at which the text of a block begins in the rest of a message's text, which is not the whole
/// text if `is_later`: blocks of thinking are paragraphs there.
pub(super) fn begin_of(item: &Json, rest: &str, is_later: bool) -> usize {
    let has_text = |rest: &str| length_on(item) > 0 && is_for(item, split_at(rest, length_on(item)).0);
    let after_break = rest.strip_prefix(TEXT_BREAK).filter(|_| is_later && is(item, "thinking"));
    if after_break.is_some_and(has_text) { TEXT_BREAK.len() } else { 0 }
}

/// Returns `true` if an item is sealed for this text.
pub fn is_for(item: &Json, text: &str) -> bool {
    let own = Json::object();
    Seal::of(text).put_on(&own);
    own.get("length") == item.get("length") && own.get("digest") == item.get("digest")
}

/// Splits a text after the given number of characters.
pub fn split_at(text: &str, characters: usize) -> (&str, &str) {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    text.split_at(end)
}
