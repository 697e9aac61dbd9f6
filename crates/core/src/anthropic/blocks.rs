//! The blocks of an assistant's message: its thinking, text and calls, laid out as they were.
//!
//! The facts about a text that need no copy of it: its length, and a digest to compare it by.

use super::part::{self, CONTENT_BLOCKS, others, with_others};
use crate::chat::delta::is_custom;
use crate::chat::event::REASONING;
use crate::chat::{ModelCall, items, message};
use crate::words::hex;
use compact_str::CompactString;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use valvehouse_json::Json;

/// Fields of a remembered block that only say where its text is.
const SEAL: [&str; 4] = ["type", "index", "length", "digest"];

/// All blocks. What somebody changed since the model said it comes as it is now: without citations,
/// which were of another text, and without the signature of thoughts that were others.
pub(super) fn of_message(said: &Json) -> Vec<Json> {
    let items = said.list(CONTENT_BLOCKS);
    let thinking = Track::new("thinking", &thinking_of(said), &items);
    let text = Track::new("text", &text_of(said), &items);
    let mut building = Building { thinking, text, calls: Calls::of(said), blocks: Vec::new() };
    for item in &items {
        building.add(item);
    }
    building.finish()
}

/// The model's thinking, under whichever name the service gave it.
pub(super) fn thinking_of(said: &Json) -> String {
    let own = REASONING.iter().find_map(|name| said.text(name));
    own.map(String::from).unwrap_or_else(|| thinking_in(&said.field("content")))
}

/// Thinking that comes as parts of the content.
pub(super) fn thinking_in(content: &Json) -> String {
    let parts = content.items().into_iter().filter(|part| is(part, "thinking"));
    let texts = parts.map(|part| match part.get("thinking") {
        Some(Json::Text(text)) => text.into(),
        thinking => message::text_of(&Json::from([("content", thinking.into())])),
    });
    texts.collect::<Vec<CompactString>>().concat()
}

fn text_of(said: &Json) -> String {
    message::text_with_refusal(said).into()
}

fn is(item: &Json, kind: &str) -> bool {
    item.text("type").is_some_and(|own| own == kind)
}

/// One of the two texts of a message, cut into the texts of its remembered blocks.
struct Track {
    /// The text of each remembered block that is still to come, and `true` if it is the one that was sealed.
    pieces: VecDeque<(String, bool)>,
    /// Text that was put between two of them, with how many come after it.
    added: Option<(usize, String)>,
    /// The text after the last of them.
    rest: String,
}

impl Track {
    /// Blocks at the beginning and at the end whose text is the sealed one stay; what was changed between them
    /// is the text of the last block there.
    fn new(kind: &str, text: &str, items: &[Json]) -> Self {
        let own: Vec<&Json> = items.iter().filter(|item| is(item, kind)).collect();
        let mut pieces = VecDeque::with_capacity(own.len());
        let mut rest = text;
        for item in &own {
            let (piece, after) = split_at(rest, length_on(item));
            if !is_for(item, piece) {
                break;
            }
            pieces.push_back((piece.to_owned(), true));
            rest = after;
        }
        let changed = &own[pieces.len()..];
        let mut last = Vec::new();
        for item in changed.iter().rev() {
            let length = rest.chars().count();
            let (before, piece) = match length.checked_sub(length_on(item)) {
                Some(before) => split_at(rest, before),
                None => break,
            };
            if length_on(item) == 0 || !is_for(item, piece) {
                break;
            }
            last.push((piece.to_owned(), true));
            rest = before;
        }
        let between = changed.len() - last.len();
        if between > 0 {
            pieces.extend((1..between).map(|_| (String::new(), false)));
            pieces.push_back((std::mem::take(&mut rest).to_owned(), false));
        }
        let is_added = !last.is_empty() && !rest.is_empty();
        let added = is_added.then(|| (last.len(), std::mem::take(&mut rest).to_owned()));
        pieces.extend(last.into_iter().rev());
        Self { pieces, added, rest: rest.to_owned() }
    }

    /// Text that was put ahead of the next remembered block.
    fn added(&mut self) -> Option<String> {
        let left = self.pieces.len();
        self.added.take_if(|(after, _)| *after == left).map(|(_, text)| text)
    }

    /// The text of the next remembered block, and `true` if it is the one that was sealed.
    fn next(&mut self) -> (String, bool) {
        self.pieces.pop_front().unwrap_or_default()
    }
}

/// Seals the remembered blocks of a message for the texts it has now: a block whose text was changed loses its
/// signature and its citations, which were of another text. Returns `true` if one did.
pub fn reseal(said: &Json) -> bool {
    let items = said.list(CONTENT_BLOCKS);
    if items.is_empty() {
        return false;
    }
    let mut any = false;
    for (kind, text) in [("thinking", thinking_of(said)), ("text", text_of(said))] {
        let mut track = Track::new(kind, &text, &items);
        for item in items.iter().filter(|item| is(item, kind)) {
            let added = track.added();
            let (text, is_sealed) = track.next();
            if let Some(added) = added {
                // It is a part of this block now.
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

/// Remembers a text that is about to be put before that of a message as a block of its own, so that the remembered
/// blocks still are those of their texts.
pub fn remember_before(said: &Json, text: &str) {
    let mut items = said.list(CONTENT_BLOCKS);
    let Some(at) = items.iter().position(|item| is(item, "text")) else { return };
    let indexes = items.iter().filter_map(|item| item.get("index")?.as_i64());
    let index = indexes.max().map_or(0, |last| last + 1);
    let item = Json::from([("type", "text".into()), ("index", index.into())]);
    Seal::of(text).put_on(&item);
    items.insert(at, item);
    // A list in the place of a list.
    said.edit(CONTENT_BLOCKS, items);
}

/// Makes a remembered block one of another text.
fn unseal(item: &Json, text: &str) {
    for (key, _) in others(item, &SEAL) {
        item.remove(&key);
    }
    Seal::of(text).put_on(item);
}

/// A block that stands alone, as the service sent it.
pub(super) fn without_index(item: &Json) -> Json {
    let block = item.copy();
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
            // Only the service that it came from reads it.
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

/// Clients expect a signature, also where there is none.
fn thinking(text: &str, others: Vec<(CompactString, Json)>) -> Json {
    let block = with_others([("type", "thinking".into()), ("thinking", text.into())], others);
    if block.get("signature").is_none() {
        // A text in an object just made.
        block.edit("signature", "");
    }
    block
}

fn unsigned(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| thinking(text, Vec::new()))
}

/// The calls as blocks, until they are laid out.
#[derive(Default)]
struct Calls {
    blocks: Vec<Option<Json>>,
    /// The places of those of an id; services may give one to several.
    places: HashMap<CompactString, VecDeque<usize>>,
}

impl Calls {
    fn of(said: &Json) -> Self {
        let mut all = Self::default();
        for given in said.list("tool_calls") {
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

/// An id as Anthropic takes it: other services have dots and colons in theirs.
pub(super) fn id(id: &str) -> CompactString {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    id.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

/// Returns the input of a custom tool, a free-form text, wrapped in an object, as Anthropic requires.
fn text_input(call: &ModelCall) -> Json {
    Json::from([("input", call.arguments.clone().into())])
}

/// A call's arguments. Those that were cut off, or are not an object, are told as what they are: the
/// model sees what it wrote, beside the error it got for it.
fn input(call: &ModelCall) -> Json {
    call.parse().unwrap_or_else(|_| Json::from([("unreadable_arguments", call.arguments.clone().into())]))
}

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
