//! `tokens::count`: how much of a model's window a text or a conversation takes.

use super::argument::{RhaiResultOf, unfit};
use super::output::Pulse;
use crate::json::Json;
use crate::script::value::json_of;
use rhai::plugin::*;
use std::collections::HashSet;
use tiktoken_rs::CoreBPE;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// What is encoded at once; between two such pieces the engine looks at its clock.
const PIECE: usize = 32 << 10;
/// What a token holds where it is estimated.
const BYTES_PER_TOKEN: usize = 4;

/// Whose tokens are counted when no model is named.
const DEFAULT_MODEL: &str = "gpt-4o";

#[export_module]
pub(super) mod functions {
    /// The tokens of a text, or of messages as OpenAI counts them: their texts, 3 more for each
    /// message and 3 for the answer; images are not counted. In the encoding of current OpenAI models
    /// (o200k).
    #[rhai_fn(return_raw)]
    pub fn count(context: NativeCallContext<'_>, text_or_messages: Dynamic) -> RhaiResultOf<i64> {
        total(&context, &text_or_messages, DEFAULT_MODEL)
    }

    /// The tokens of a text or of messages for this model: exact for OpenAI's, whoever provides them;
    /// for any other model an estimate of four bytes a token.
    #[rhai_fn(return_raw, name = "count")]
    pub fn count_for(
        context: NativeCallContext<'_>,
        text_or_messages: Dynamic,
        model: &str,
    ) -> RhaiResultOf<i64> {
        total(&context, &text_or_messages, model)
    }
}

/// Reads the default encoding, a tenth of a second's work that would count against the first script
/// to call `tokens::count`.
pub(crate) fn prepare() {
    encoding(DEFAULT_MODEL);
}

fn total(context: &NativeCallContext<'_>, value: &Dynamic, model: &str) -> RhaiResultOf<i64> {
    let mut counter = Counter { encoding: encoding(model), pulse: Pulse::new(context), tokens: 0 };
    match json_of(value)? {
        Json::Text(text) => counter.text(&text)?,
        Json::Array(messages) => counter.messages(&messages.items())?,
        _ => return Err(unfit("tokens::count", "text_or_messages", "a text or an array of messages", value)),
    }
    Ok(counter.tokens as i64)
}

struct Counter<'a, 'c> {
    encoding: Option<&'static CoreBPE>,
    pulse: Pulse<'a, 'c>,
    tokens: usize,
}

impl Counter<'_, '_> {
    /// As in OpenAI's cookbook, "How to count tokens with tiktoken".
    fn messages(&mut self, messages: &[Json]) -> RhaiResultOf<()> {
        self.tokens += 3;
        messages.iter().try_for_each(|message| self.message(message))
    }

    fn message(&mut self, message: &Json) -> RhaiResultOf<()> {
        self.tokens += 3;
        self.field(message, "role")?;
        self.content(&message.get("content").unwrap_or_default())?;
        if message.text("name").is_some() {
            self.tokens += 1;
            self.field(message, "name")?;
        }
        for call in message.get("tool_calls").unwrap_or_default().items() {
            let function = call.get("function").unwrap_or_default();
            self.field(&function, "name")?;
            self.field(&function, "arguments")?;
        }
        Ok(())
    }

    /// A text, or the texts among a list of parts.
    fn content(&mut self, content: &Json) -> RhaiResultOf<()> {
        match content {
            Json::Text(text) => self.text(text),
            parts => parts.items().iter().try_for_each(|part| self.field(part, "text")),
        }
    }

    fn field(&mut self, value: &Json, key: &str) -> RhaiResultOf<()> {
        value.text(key).map_or(Ok(()), |text| self.text(&text))
    }

    fn text(&mut self, mut text: &str) -> RhaiResultOf<()> {
        let Some(encoding) = self.encoding else {
            self.tokens += estimate(text);
            return Ok(());
        };
        while !text.is_empty() {
            let (piece, rest) = text.split_at(seam(text));
            // `encode` gives up where `encode_ordinary` would panic: on runs that its pattern cannot match.
            let tokens = encoding.encode(piece, &HashSet::new());
            self.tokens += tokens.map_or_else(|_| estimate(piece), |(tokens, _)| tokens.len());
            self.pulse.beat()?;
            text = rest;
        }
        Ok(())
    }
}

/// Where to cut a text into pieces without cutting a token: before a space between two words, which
/// every encoding keeps with the second. A piece without one is cut at its full length.
fn seam(text: &str) -> usize {
    if text.len() <= PIECE {
        return text.len();
    }
    let bytes = &text.as_bytes()[..PIECE];
    let between_words = |at: &usize| {
        bytes[*at] == b' ' && bytes[at - 1].is_ascii_alphanumeric() && bytes[at + 1].is_ascii_alphanumeric()
    };
    (1..PIECE - 1).rev().find(between_words).unwrap_or_else(|| text.floor_char_boundary(PIECE))
}

fn estimate(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// The encoding of a model, read from the files built in when it is first used; none when only an
/// estimate is possible. What stands before a `/` is its provider.
fn encoding(model: &str) -> Option<&'static CoreBPE> {
    let name = model.rsplit('/').next().unwrap_or(model);
    Some(match get_tokenizer(name) {
        Some(Tokenizer::O200kBase) => tiktoken_rs::o200k_base_singleton(),
        Some(Tokenizer::O200kHarmony) => tiktoken_rs::o200k_harmony_singleton(),
        Some(Tokenizer::Cl100kBase) => tiktoken_rs::cl100k_base_singleton(),
        Some(Tokenizer::P50kBase) => tiktoken_rs::p50k_base_singleton(),
        Some(Tokenizer::P50kEdit) => tiktoken_rs::p50k_edit_singleton(),
        Some(Tokenizer::R50kBase | Tokenizer::Gpt2) => tiktoken_rs::r50k_base_singleton(),
        None if is_openai(name) => tiktoken_rs::o200k_base_singleton(),
        None => return None,
    })
}

/// `gpt-…`, `chatgpt-…`, or `o` and a digit.
fn is_openai(name: &str) -> bool {
    let numbered = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered || name.starts_with("gpt") || name.starts_with("chatgpt")
}

#[cfg(test)]
mod tests {
    use crate::script::package::tests::{gives, refuses};

    #[test]
    fn texts_are_counted_in_the_models_encoding() {
        gives(&[
            (r#"tokens::count("")"#, "0"),
            (r#"tokens::count("hello world")"#, "2"),
            (r#"tokens::count("hello world", "openai/gpt-4o-mini")"#, "2"),
            // The cookbook's example of how encodings differ: お誕生日おめでとう.
            (r#"tokens::count("お誕生日おめでとう", "gpt-4")"#, "9"),
            (r#"tokens::count("お誕生日おめでとう", "gpt-4o")"#, "8"),
            (r#"tokens::count("お誕生日おめでとう", "o9-future")"#, "8"),
            (r#"tokens::count("お誕生日おめでとう", "davinci")"#, "14"),
            (r#"tokens::count("hello world", "claude-3")"#, "3"),
        ]);
        refuses(&[("tokens::count(5)", "must be a text or an array of messages, not number")]);
    }

    #[test]
    fn messages_are_counted_as_the_cookbook_does() {
        gives(&[
            ("tokens::count([])", "3"),
            (r#"tokens::count([#{ role: "user", content: "hello world" }])"#, "9"),
            (r#"tokens::count([#{ role: "user", name: "ann", content: "hello world" }])"#, "11"),
            (
                r#"tokens::count([#{ role: "user", content: [#{ type: "text", text: "hello world" }, #{ type: "image_url" }] }])"#,
                "9",
            ),
            (
                r#"tokens::count([#{ role: "assistant", tool_calls: [#{ "function": #{ name: "a", arguments: "{}" } }] }])"#,
                "9",
            ),
        ]);
    }

    #[test]
    fn long_and_odd_texts_are_counted_in_pieces() {
        gives(&[
            // Two tokens each; cut into pieces without changing the sum.
            (r#"tokens::count(text::replace(big(20_000), "x", " hello a"))"#, "40000"),
            (r#"let s = text::replace(big(70_000), "x", "A"); tokens::count(s) > 8_000"#, "true"),
            (r#"let s = text::replace(big(70_000), "x", "ä"); tokens::count(s) > 8_000"#, "true"),
            (r#"tokens::count("<|endoftext|>") > 3"#, "true"),
        ]);
    }
}
