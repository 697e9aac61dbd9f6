//! The blocks of an assistant message in their original order: thinking, text and tool calls.
//!
//! A block stores the length and a digest of its text instead of a copy.

use super::part::{self, CONTENT_BLOCKS, others, with_others};
use crate::chat::delta::is_custom;
use crate::chat::event::REASONING;
use crate::chat::{ModelCall, items, message};
use crate::text::hex;
use compact_str::CompactString;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use valvehouse_json::Json;

/// Fields of a remembered block that locate its text.
const SEAL: [&str; 4] = ["type", "index", "length", "digest"];

/// Returns all blocks of an assistant message. A text that was changed since the model wrote it has its current
/// content, without citations; changed thinking has no signature.
pub(super) fn of_message(message: &Json) -> Vec<Json> {
    let items = message.list(CONTENT_BLOCKS);
    let thinking = Track::new("thinking", &thinking_of(message), &items);
    let text = Track::new("text", &text_of(message), &items);
    let mut building = Building { thinking, text, calls: Calls::of(message), blocks: Vec::new() };
    for item in &items {
        building.add(item);
    }
    building.finish()
}

/// Returns the number of blocks of thinking in a message that Anthropic accepts: unchanged and with a signature, or
/// redacted.
pub fn signed_blocks(message: &Json) -> usize {
    let is_signed = |block: &Json| match &*block.text_or_empty("type") {
        "thinking" => block.text("signature").is_some_and(|signature| !signature.is_empty()),
        kind => kind == "redacted_thinking",
    };
    of_message(message).iter().filter(|block| is_signed(block)).count()
}

/// Returns the model's thinking from any of the field names that providers use.
pub(super) fn thinking_of(message: &Json) -> String {
    let own = REASONING.iter().find_map(|name| message.text(name));
    own.map(String::from).unwrap_or_else(|| thinking_in(&message.field("content")))
}

/// Returns the thinking in the parts of a content.
pub(super) fn thinking_in(content: &Json) -> String {
    let parts = content.items().into_iter().filter(|part| is(part, "thinking"));
    let texts = parts.map(|part| match part.get("thinking") {
        Some(Json::Text(text)) => text.into(),
        thinking => message::text_of(&Json::from([("content", thinking.into())])),
    });
    texts.collect::<Vec<CompactString>>().concat()
}

fn text_of(message: &Json) -> String {
    message::text_with_refusal(message).into()
}

fn is(item: &Json, kind: &str) -> bool {
    item.text("type").is_some_and(|own| own == kind)
}

/// The text or the thinking of a message, split into the texts of its remembered blocks.
struct Track {
    /// The text of each remaining remembered block, and `true` if it is unchanged since it was sealed.
    chunks: VecDeque<(String, bool)>,
    /// Text inserted between two blocks, and the number of blocks after it.
    added: Option<(usize, String)>,
    /// The text after the last block.
    rest: String,
}

impl Track {
    /// Splits a text. Leading and trailing blocks whose text is unchanged keep it; the changed text between
    /// them becomes the text of the last block there.
    fn new(kind: &str, text: &str, items: &[Json]) -> Self {
        let own: Vec<&Json> = items.iter().filter(|item| is(item, kind)).collect();
        let mut chunks = VecDeque::with_capacity(own.len());
        let mut rest = text;
        for item in &own {
            let (chunk, after) = split_at(rest, length_on(item));
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
            rest = before;
        }
        let between = changed.len() - last.len();
        if between > 0 {
            chunks.extend((1..between).map(|_| (String::new(), false)));
            chunks.push_back((std::mem::take(&mut rest).to_owned(), false));
        }
        let is_added = !last.is_empty() && !rest.is_empty();
        let added = is_added.then(|| (last.len(), std::mem::take(&mut rest).to_owned()));
        chunks.extend(last.into_iter().rev());
        Self { chunks, added, rest: rest.to_owned() }
    }

    /// Returns the text inserted before the next remembered block.
    fn added(&mut self) -> Option<String> {
        let left = self.chunks.len();
        self.added.take_if(|(after, _)| *after == left).map(|(_, text)| text)
    }

    /// Returns the text of the next remembered block, and `true` if it is unchanged since it was sealed.
    fn next(&mut self) -> (String, bool) {
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
    for (kind, text) in [("thinking", thinking_of(message)), ("text", text_of(message))] {
        let mut track = Track::new(kind, &text, &items);
        for item in items.iter().filter(|item| is(item, kind)) {
            let added = track.added();
            let (text, is_sealed) = track.next();
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
    for (key, _) in others(item, &SEAL) {
        item.remove(&key);
    }
    Seal::of(text).put_on(item);
}

/// Returns a block without a text of its own, as the provider sent it.
pub(super) fn without_index(item: &Json) -> Json {
    let block = item.deep_clone();
    block.remove("index");
    block
}

struct Building {
    thinking: Track,
    text: Track,
    calls: Calls,
    blocks: Vec<Json>,
}

impl Building {
    fn add(&mut self, item: &Json) {
        match &*item.text_or_empty("type") {
            "text" => {
                self.blocks.extend(self.text.added().and_then(|added| part::text_block(&added)));
                let (text, is_sealed) = self.text.next();
                if !is_sealed {
                    self.blocks.extend(part::text_block(&text));
                } else if !text.is_empty() {
                    let fields = [("type", "text".into()), ("text", text.into())];
                    self.blocks.push(with_others(fields, others(item, &SEAL)));
                }
            }
            "thinking" => {
                self.blocks.extend(self.thinking.added().and_then(|added| unsigned(&added)));
                let (text, is_sealed) = self.thinking.next();
                if !is_sealed {
                    self.blocks.extend(unsigned(&text));
                } else {
                    self.blocks.push(thinking(&text, others(item, &SEAL)));
                }
            }
            "tool_use" => {
                let id = item.text_or_empty("id");
                self.blocks.extend(self.calls.take(&id));
            }
            // Only the provider that sent the item reads it.
            items::ITEM => {}
            _ => self.blocks.push(without_index(item)),
        }
    }

    fn finish(mut self) -> Vec<Json> {
        self.blocks.extend(unsigned(&self.thinking.rest));
        self.blocks.extend(part::text_block(&self.text.rest));
        self.blocks.extend(self.calls.blocks.into_iter().flatten());
        self.blocks
    }
}

/// Creates a thinking block. Clients expect a signature, so a missing one is the empty string.
fn thinking(text: &str, others: Vec<(CompactString, Json)>) -> Json {
    let block = with_others([("type", "thinking".into()), ("thinking", text.into())], others);
    if block.get("signature").is_none() {
        // The block was created above, so the write cannot fail.
        block.edit("signature", "");
    }
    block
}

fn unsigned(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| thinking(text, Vec::new()))
}

/// The tool-call blocks that have not been placed yet.
#[derive(Default)]
struct Calls {
    blocks: Vec<Option<Json>>,
    /// The positions of the calls for each id; a provider may use an id several times.
    places: HashMap<CompactString, VecDeque<usize>>,
}

impl Calls {
    fn of(message: &Json) -> Self {
        let mut all = Self::default();
        for given in message.list("tool_calls") {
            let alone = Json::from([("tool_calls", vec![given.clone()].into())]);
            let Some(call) = ModelCall::all(&alone).pop() else { continue };
            let fields = [
                ("type", "tool_use".into()),
                ("id", id(&call.id).into()),
                ("name", call.name.clone().into()),
                ("input", if is_custom(&given) { text_input(&call) } else { input(&call) }),
            ];
            let beside = others(&given, &["id", "type", "function", "custom", "index"]);
            all.places.entry(call.id).or_default().push_back(all.blocks.len());
            all.blocks.push(Some(with_others(fields, beside)));
        }
        all
    }

    fn take(&mut self, id: &str) -> Option<Json> {
        let place = self.places.get_mut(id)?.pop_front()?;
        self.blocks.get_mut(place)?.take()
    }
}

/// Returns an id that Anthropic accepts: characters such as dots and colons are replaced.
pub(super) fn id(id: &str) -> CompactString {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    id.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

/// Returns the input of a custom tool, a free-form text, wrapped in an object, as Anthropic requires.
fn text_input(call: &ModelCall) -> Json {
    Json::from([("input", call.arguments.clone().into())])
}

/// Returns the arguments of a call as an object. Arguments that are cut off or are not an object are wrapped as
/// text, so that the model sees them next to the error.
fn input(call: &ModelCall) -> Json {
    call.parse().unwrap_or_else(|_| Json::from([("unreadable_arguments", call.arguments.clone().into())]))
}

/// The seal of a growing text.
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

    /// Writes the seal to an item: `length` in characters, and `digest`.
    pub(super) fn put_on(&self, item: &Json) {
        let digest = hex(&self.hash.clone().finalize()[..8]);
        // The fields are new in an object created above, so the writes cannot fail.
        item.edit("length", self.length);
        item.edit("digest", digest);
    }
}

impl Seal {
    /// Returns `true` if an item is sealed for this text or has no seal.
    pub(super) fn fits(&self, item: &Json) -> bool {
        let own = Json::object();
        self.put_on(&own);
        item.get("digest").is_none()
            || (own.get("length"), own.get("digest")) == (item.get("length"), item.get("digest"))
    }
}

/// Returns the length in an item's seal, in characters.
pub(super) fn length_on(item: &Json) -> usize {
    let length = item.get("length").and_then(|length| length.as_i64()).unwrap_or(0);
    usize::try_from(length).unwrap_or(0)
}

/// Returns `true` if an item is sealed for this text.
pub(super) fn is_for(item: &Json, text: &str) -> bool {
    let own = Json::object();
    Seal::of(text).put_on(&own);
    own.get("length") == item.get("length") && own.get("digest") == item.get("digest")
}

/// Splits a text after the given number of characters.
pub(super) fn split_at(text: &str, characters: usize) -> (&str, &str) {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    text.split_at(end)
}
