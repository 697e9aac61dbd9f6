//! Conversion of a complete answer to the chunks of a stream, the inverse of [`Fold`](super::Fold).

use super::{Head, content_blocks, message, response};
use valvehouse_json::Json;

/// The chunks of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextChunks {
    /// A chunk for each word.
    Words,
    /// One chunk, for a receiver that only needs the result.
    Whole,
}

impl TextChunks {
    fn of(self, text: &str) -> impl Iterator<Item = &str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let end = if self == Self::Words { first_word(rest) } else { rest.len() };
            let (next, after) = rest.split_at(end);
            rest = after;
            (!next.is_empty()).then_some(next)
        })
    }
}

/// Splits a `chat.completion` into chunks: for each choice its role, its words, its tool calls and its finish
/// reason, followed by the usage if requested.
pub fn split(completion: &Json, with_usage: bool) -> Vec<Json> {
    split_texts(completion, TextChunks::Words, with_usage)
}

/// Splits a `chat.completion` as [`split`] does, with its texts in these chunks.
pub fn split_texts(completion: &Json, texts: TextChunks, with_usage: bool) -> Vec<Json> {
    let head = Head {
        id: completion.text_or_empty("id"),
        model: completion.text_or_empty("model"),
        created: completion.integer("created").unwrap_or(0).unsigned_abs(),
    };
    let mut chunks = Vec::new();
    for (place, choice) in completion.list("choices").iter().enumerate() {
        let index = choice.get("index").unwrap_or_else(|| place.into());
        for delta in sources_behind_texts(deltas(&choice.field("message"), texts)) {
            let chunk = [("index", index.clone()), ("delta", delta), ("finish_reason", Json::Null)];
            chunks.push(head.object("chat.completion.chunk", vec![chunk.into()]));
        }
        chunks.push(head.object("chat.completion.chunk", vec![last_chunk(choice, index)]));
    }
    if let Some(first) = chunks.first() {
        add_others(completion, first, &["id", "object", "created", "model", "choices", "usage"]);
    }
    if let (true, Some(usage)) = (with_usage, response::usage_of(completion)) {
        chunks.push(head.usage_chunk(usage.deep_clone()));
    }
    chunks
}

/// Moves the annotations of a text after it, as providers stream them.
fn sources_behind_texts(mut deltas: Vec<Json>) -> Vec<Json> {
    let Some((first, sources)) = deltas.first().and_then(|first| Some((first, first.given("annotations")?)))
    else {
        return deltas;
    };
    // The object was created by the caller, so the write cannot fail.
    first.remove("annotations");
    let last = deltas.iter().rposition(|delta| delta.text("content").is_some()).unwrap_or(0);
    deltas.insert(last + 1, Json::from([("annotations", sources)]));
    deltas
}

/// Returns the last chunk of a choice: its finish reason and its other fields.
fn last_chunk(choice: &Json, index: Json) -> Json {
    let chunk = Json::from([("index", index), ("delta", Json::object())]);
    add_others(choice, &chunk, &["index", "message"]);
    chunk
}

/// The message field that holds the ordered blocks.
const BLOCKS: &str = "content_blocks";

/// Returns the deltas of a message with known blocks, block by block. The stored fields of a block follow its
/// text, as in a stream.
fn laid_out(message: &Json, blocks: &[Json], chunks: TextChunks) -> Vec<Json> {
    let first = Json::object();
    let mut deltas = vec![first.clone()];
    let fields = message.entries();
    for (key, value) in fields {
        match (&*key, &value) {
            (BLOCKS | "tool_calls", _) => {}
            // A new object accepts any value, here and below.
            ("content" | "reasoning_content", Json::Text(_)) => first.put(&key, ""),
            _ => first.put(&key, value.deep_clone()),
        }
    }
    let texts = [("thinking", "reasoning_content"), ("text", "content")];
    let whole = texts.map(|(_, key)| message.text_or_empty(key));
    let mut rest = whole.clone();
    let mut calls: Vec<(usize, Json)> = message.list("tool_calls").into_iter().enumerate().collect();
    let call = |(index, call): (usize, Json)| {
        let call = call.deep_clone();
        call.edit("index", index);
        Json::from([("tool_calls", vec![call].into())])
    };
    for block in blocks {
        let kind = block.text_or_empty("type");
        if let Some(place) = texts.iter().position(|(own, _)| *own == kind) {
            let length = block.integer("length").unwrap_or(0);
            let length = usize::try_from(length).unwrap_or(0);
            let begin = content_blocks::begin_of(block, &rest[place], rest[place].len() < whole[place].len());
            let own = &rest[place][begin..];
            let end = own.char_indices().nth(length).map_or(own.len(), |(at, _)| at);
            let (text, after) = rest[place].split_at(begin + end);
            deltas.extend(chunks.of(text).map(|word| Json::from([(texts[place].1, word.into())])));
            rest[place] = after.into();
        } else if kind == "tool_use" {
            let own = calls.iter().position(|(_, call)| call.get("id") == block.get("id"));
            deltas.extend(own.map(|at| call(calls.remove(at))));
        }
        deltas.push(Json::from([(BLOCKS, vec![block.deep_clone()].into())]));
    }
    for ((_, key), text) in texts.iter().zip(&rest) {
        deltas.extend(chunks.of(text).map(|word| Json::from([(*key, word.into())])));
    }
    deltas.extend(calls.into_iter().map(call));
    deltas
}

fn deltas(message: &Json, texts: TextChunks) -> Vec<Json> {
    let blocks = message.list(BLOCKS);
    let is_text =
        message.get("content").is_none_or(|content| content.is_null() || content.as_str().is_some());
    if !blocks.is_empty() && is_text {
        return laid_out(message, &blocks, texts);
    }
    let first = Json::object();
    let mut deltas = vec![first.clone()];
    // A choice without a message still begins and ends.
    let Json::Object(message) = message else { return vec![message::assistant("")] };
    // Thinking comes before text.
    let is_thought = |key: &str| matches!(key, "reasoning_content" | "reasoning");
    let (thoughts, others): (Vec<_>, Vec<_>) =
        message.entries().into_iter().partition(|(key, _)| is_thought(key));
    for (key, value) in thoughts.into_iter().chain(others) {
        match (&*key, &value) {
            ("content" | "reasoning_content" | "reasoning" | "refusal", Json::Text(text)) => {
                // A new object accepts any value, here and below.
                first.put(&key, "");
                deltas.extend(texts.of(text).map(|word| Json::from([(&*key, word.into())])));
            }
            ("tool_calls", Json::Array(calls)) => {
                for (index, call) in calls.items().iter().enumerate() {
                    let call = call.deep_clone();
                    call.edit("index", index);
                    deltas.push(Json::from([("tool_calls", vec![call].into())]));
                }
            }
            _ => {
                first.put(&key, value.deep_clone());
            }
        }
    }
    deltas
}

/// Returns the length in bytes of the first word, with the white space that follows it.
fn first_word(text: &str) -> usize {
    let word = text.find(char::is_whitespace).unwrap_or(text.len());
    text[word..].find(|letter: char| !letter.is_whitespace()).map_or(text.len(), |space| word + space)
}

fn add_others(from: &Json, to: &Json, except: &[&str]) {
    let Json::Object(from) = from else { return };
    for (key, value) in from.entries() {
        if !except.contains(&&*key) {
            to.edit(&key, value.deep_clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Fold;
    use proptest::prelude::*;

    fn folded(chunks: &[Json]) -> Json {
        let mut fold = Fold::default();
        chunks.iter().for_each(|chunk| fold.push(chunk));
        fold.finish()
    }

    #[test]
    fn splitting_keeps_the_space_after_each_word() {
        let words = |text| TextChunks::Words.of(text).collect::<Vec<_>>();
        assert_eq!(words(" a b \n c"), [" ", "a ", "b \n ", "c"]);
        assert!(words("").is_empty());
    }

    #[test]
    fn the_first_chunk_has_the_role_and_the_last_the_usage() {
        let answer = Head::new("m").text("Hello you");
        answer.set("usage", response::usage(1, 2)).unwrap();
        let chunks = split(&answer, true);
        let deltas: Vec<String> =
            chunks.iter().map(|chunk| chunk.at_path("choices.0.delta").to_string()).collect();
        let expected = [
            r#"{"role":"assistant","content":""}"#,
            r#"{"content":"Hello "}"#,
            r#"{"content":"you"}"#,
            "{}",
            "null",
        ];
        assert_eq!(deltas, expected);
        assert_eq!(chunks[3].at_path("choices.0.finish_reason"), Json::from("stop"));
        assert_eq!(folded(&chunks), answer);
        assert!(split(&answer, false).iter().all(|chunk| chunk.get("usage").is_none()));
    }

    proptest! {
        #[test]
        fn folding_undoes_splitting(content in any::<String>(), reasoning in any::<String>(), calls in 0..3_usize) {
            let message = message::assistant(content);
            message.set("reasoning_content", reasoning).unwrap();
            let calls: Vec<Json> = (0..calls)
                .map(|n| super::super::ModelCall { id: format!("c{n}").into(), name: "t".into(), arguments: "{}".into() })
                .map(|call| call.to_json())
                .collect();
            if !calls.is_empty() {
                message.set("tool_calls", calls).unwrap();
            }
            let answer = Head::new("m").completion(message, "stop");
            prop_assert_eq!(folded(&split(&answer, true)), answer.clone());
            prop_assert_eq!(folded(&split_texts(&answer, TextChunks::Whole, true)), answer);
        }
    }
}
