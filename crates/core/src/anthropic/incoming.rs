//! Blocks as they come, whole or in pieces, and the deltas of a chat message that they are.

use super::cite;
use super::extra::CONTENT_BLOCKS;
use super::extra::{others, with_others};
use super::layout::{Layout, Rank};
use super::seal::Seal;
use valvehouse_json::Json;

/// Turns blocks into deltas, in their order.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    layout: Layout,
    open: Vec<Open>,
    calls: usize,
    /// The letters of all texts so far.
    letters: usize,
}

/// A block whose end has not come.
#[derive(Debug)]
struct Open {
    index: i64,
    /// The fields of the block beyond its text or input.
    block: Json,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// With the letters of the texts before it.
    Text(Seal, usize),
    Thinking(Seal),
    Call {
        number: usize,
        begun: bool,
    },
    Other {
        input: String,
    },
}

impl Incoming {
    /// A block begins; some services send all of it at once.
    pub(super) fn begin(&mut self, index: i64, block: &Json) -> Vec<Json> {
        let kind = block.text_or_empty("type");
        let (kind, rank, first) = match &*kind {
            "text" => (Kind::Text(Seal::default(), self.letters), Some(Rank::Text), "text"),
            "thinking" => (Kind::Thinking(Seal::default()), Some(Rank::Thinking), "thinking"),
            "tool_use" => {
                self.calls += 1;
                (Kind::Call { number: self.calls - 1, begun: false }, Some(Rank::Call), "input")
            }
            _ => (Kind::Other { input: String::new() }, None, ""),
        };
        let items = rank.into_iter().flat_map(|rank| self.layout.begin(rank)).collect();
        let mut deltas = remembered(items);
        let is_call = matches!(kind, Kind::Call { .. });
        let kept = if is_call { Json::from([("id", block.field("id"))]) } else { Json::object() };
        if !is_call {
            for (key, value) in others(block, &[first]) {
                // Copies, in an object just made.
                kept.edit(&key, value);
            }
        }
        self.open.push(Open { index, block: kept, kind });
        if let Kind::Call { number, .. } = self.open[self.open.len() - 1].kind {
            deltas.push(call(number, block));
        }
        match (first, block.get(first)) {
            ("input", Some(input @ Json::Object(_))) if !input.is_empty() => {
                deltas.extend(self.input(index, &input.to_string()));
            }
            ("text" | "thinking", Some(Json::Text(text))) => deltas.extend(self.say(index, &text)),
            _ => {}
        }
        deltas
    }

    /// More of a block.
    pub(super) fn grow(&mut self, index: i64, delta: &Json) -> Vec<Json> {
        let kind = delta.text_or_empty("type");
        let text = |key: &str| delta.text_or_empty(key);
        let begun = if self.open.iter().any(|open| open.index == index) {
            Vec::new()
        } else {
            // Some services forget to say that a block begins.
            let kind = if kind == "thinking_delta" { "thinking" } else { "text" };
            self.begin(index, &Json::from([("type", kind.into())]))
        };
        let more = match &*kind {
            "text_delta" => self.say(index, &text("text")),
            "thinking_delta" => self.say(index, &text("thinking")),
            "input_json_delta" => self.input(index, &text("partial_json")),
            "citations_delta" => {
                self.add(index, "citations", delta.field("citation"));
                None
            }
            _ => {
                for (key, value) in others(delta, &["type"]) {
                    self.set(index, &key, value);
                }
                None
            }
        };
        begun.into_iter().chain(more).collect()
    }

    /// A block ends.
    pub(super) fn end(&mut self, index: i64) -> Vec<Json> {
        let Some(at) = self.open.iter().position(|open| open.index == index) else { return Vec::new() };
        let Open { block, kind, .. } = self.open.remove(at);
        let item = |kind: &str| {
            with_others([("type", kind.into()), ("index", index.into())], others(&block, &["type"]))
        };
        let mut sources = Vec::new();
        let (item, is_plain) = match kind {
            Kind::Text(seal, from) => {
                let item = item(&block.text_or_empty("type"));
                sources = cite::annotations(&item, from..self.letters);
                let is_plain = others(&item, &["type", "index"]).iter().all(|(_, value)| value.is_empty());
                seal.put_on(&item);
                (item, is_plain)
            }
            Kind::Thinking(seal) => {
                let item = item(&block.text_or_empty("type"));
                let is_plain = others(&item, &["type", "index"]).iter().all(|(_, value)| value.is_empty());
                seal.put_on(&item);
                (item, is_plain)
            }
            Kind::Call { number, begun } => {
                let item = item("tool_use");
                let rest = (!begun).then(|| arguments(number, "{}"));
                self.layout.end_plain(item);
                return rest.into_iter().collect();
            }
            Kind::Other { input } => {
                if let Ok(input) = Json::parse(input.as_bytes()) {
                    block.edit("input", input);
                }
                // Clients of OpenAI's that put streams together know the elements of a list by their index.
                block.edit("index", index);
                (block, false)
            }
        };
        if is_plain {
            self.layout.end_plain(item);
            return Vec::new();
        }
        let mut deltas = remembered(self.layout.end(item));
        if !sources.is_empty() {
            deltas.push(Json::from([("annotations", sources.into())]));
        }
        deltas
    }

    /// The answer ends, whatever is still open.
    pub(super) fn end_all(&mut self) -> Vec<Json> {
        let open: Vec<i64> = self.open.iter().map(|open| open.index).collect();
        open.into_iter().flat_map(|index| self.end(index)).collect()
    }

    fn at(&mut self, index: i64) -> Option<&mut Open> {
        self.open.iter_mut().rfind(|open| open.index == index)
    }

    fn say(&mut self, index: i64, text: &str) -> Option<Json> {
        if text.is_empty() {
            return None;
        }
        let letters = text.chars().count();
        let (key, seal) = match &mut self.at(index)?.kind {
            Kind::Text(seal, _) => ("content", seal),
            Kind::Thinking(seal) => ("reasoning_content", seal),
            _ => return None,
        };
        seal.add(text);
        if key == "content" {
            self.letters += letters;
        }
        Some(Json::from([(key, text.into())]))
    }

    fn input(&mut self, index: i64, piece: &str) -> Option<Json> {
        if piece.is_empty() {
            return None;
        }
        match &mut self.at(index)?.kind {
            Kind::Call { number, begun } => {
                *begun = true;
                Some(arguments(*number, piece))
            }
            Kind::Other { input } => {
                input.push_str(piece);
                None
            }
            _ => None,
        }
    }

    fn add(&mut self, index: i64, key: &str, value: Json) {
        let Some(open) = self.at(index) else { return };
        // Copies, in lists and objects of our own.
        let _ = match open.block.get(key) {
            Some(Json::Array(list)) => list.push(value.copy()),
            _ => open.block.set(key, vec![value.copy()]),
        };
    }

    fn set(&mut self, index: i64, key: &str, value: Json) {
        let Some(open) = self.at(index) else { return };
        let value = match (open.block.get(key), value) {
            (Some(Json::Text(before)), Json::Text(more)) => format!("{before}{more}").into(),
            (_, value) => value,
        };
        open.block.edit(key, value);
    }
}

/// A delta for blocks that are remembered.
fn remembered(items: Vec<Json>) -> Vec<Json> {
    if items.is_empty() { Vec::new() } else { vec![Json::from([(CONTENT_BLOCKS, items.into())])] }
}

/// The delta with which a call begins.
fn call(number: usize, block: &Json) -> Json {
    let name = block.field("name");
    let function = Json::from([("name", name), ("arguments", "".into())]);
    let fields = [
        ("index", number.into()),
        ("id", block.field("id")),
        ("type", "function".into()),
        ("function", function),
    ];
    let call = with_others(fields, others(block, &["type", "id", "name", "input"]));
    Json::from([("tool_calls", vec![call].into())])
}

fn arguments(number: usize, piece: &str) -> Json {
    let function = Json::from([("arguments", piece.into())]);
    let call = Json::from([("index", number.into()), ("function", function)]);
    Json::from([("tool_calls", vec![call].into())])
}
