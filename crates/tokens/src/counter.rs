//! The counter of a model's tokens.

use crate::vocabulary;
use std::collections::HashSet;
use std::convert::Infallible;
use tiktoken_rs::CoreBPE;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};
use valvehouse_json::Json;

/// The model whose tokens are counted when none is named.
pub const DEFAULT_MODEL: &str = "gpt-4o";

/// The tokens of a conversation beside its messages: the beginning of the answer.
pub const BESIDE: usize = 3;

/// The tokens of each message beside its texts.
const PER_MESSAGE: usize = 3;
/// The bytes that are encoded at once; between two such pieces whoever waits may look at the clock.
const PIECE: usize = 32 << 10;
/// The bytes of a token where it is estimated.
const BYTES_PER_TOKEN: usize = 4;
/// The tokens of an image, a sound or a file: what OpenAI takes for a picture of 1024 by 1024.
const MEDIUM: usize = 765;

/// The number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// So many.
    pub tokens: usize,
    /// Set if the count is an estimate, because the model's encoding is unknown or there is more than text.
    pub is_estimate: bool,
}

/// The tokens of messages as a model would read them, the beginning of its answer included.
pub fn of_messages(messages: &[Json], model: &str) -> Count {
    let counter = Counter::of(model).with_media();
    let tokens = BESIDE + messages.iter().map(|message| counter.message(message)).sum::<usize>();
    let is_estimate = counter.is_estimate() || messages.iter().any(has_media);
    Count { tokens, is_estimate }
}

/// Reads the default encoding, a tenth of a second's work that would otherwise count against whoever
/// counts first.
pub fn prepare() {
    encoding(DEFAULT_MODEL);
}

/// Counts for one model.
#[derive(Clone, Copy)]
pub struct Counter {
    encoding: Option<&'static CoreBPE>,
    medium: usize,
}

impl Counter {
    /// For this model; what stands before a `/` in its name is its provider. Images are not counted.
    pub fn of(model: &str) -> Self {
        Self { encoding: encoding(model), medium: 0 }
    }

    /// The same, to which an image, a sound or a file is something, too.
    #[must_use]
    pub fn with_media(self) -> Self {
        Self { medium: MEDIUM, ..self }
    }

    /// Returns `true` if the model's encoding is not known.
    pub fn is_estimate(&self) -> bool {
        self.encoding.is_none()
    }

    /// Counts the tokens of any message.
    pub fn message(&self, message: &Json) -> usize {
        let Ok(tokens) = self.message_between(message, &mut || Ok::<_, Infallible>(()));
        tokens
    }

    /// The tokens of a text.
    pub fn text(&self, text: &str) -> usize {
        let Ok(tokens) = self.text_between(text, &mut || Ok::<_, Infallible>(()));
        tokens
    }

    /// Counts the tokens of a message and calls `beat` regularly, so that the caller can stop.
    ///
    /// The method is that of OpenAI's cookbook, "How to count tokens with tiktoken".
    ///
    /// # Errors
    /// Returns the error of `beat`.
    pub fn message_between<E>(
        &self,
        message: &Json,
        beat: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut tokens = PER_MESSAGE + self.field(message, "role", beat)?;
        tokens += self.content(&message.field("content"), beat)?;
        if message.text("name").is_some() {
            tokens += 1 + self.field(message, "name", beat)?;
        }
        tokens += self.field(message, "refusal", beat)?;
        for call in message.list("tool_calls") {
            let function = call.field("function");
            tokens += self.field(&function, "name", beat)?;
            tokens += match function.field("arguments") {
                Json::Null => 0,
                Json::Text(text) => self.text_between(&text, beat)?,
                // Some servers send the object itself instead of its text.
                value => self.text_between(&value.to_string(), beat)?,
            };
        }
        Ok(tokens)
    }

    /// A text, or the texts among a list of parts.
    fn content<E>(&self, content: &Json, beat: &mut impl FnMut() -> Result<(), E>) -> Result<usize, E> {
        if let Json::Text(text) = content {
            return self.text_between(text, beat);
        }
        let mut tokens = 0;
        for part in content.items() {
            tokens += match &part {
                Json::Text(text) => self.text_between(text, beat)?,
                part if is_medium(part) && self.medium > 0 => self.medium.max(of_file(part)),
                part if is_medium(part) => 0,
                part => self.field(part, "text", beat)?,
            };
        }
        Ok(tokens)
    }

    fn field<E>(
        &self,
        value: &Json,
        key: &str,
        beat: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<usize, E> {
        value.text(key).map_or(Ok(0), |text| self.text_between(&text, beat))
    }

    /// Counts the tokens of a text and calls `beat` between its parts, so that the caller can stop.
    ///
    /// # Errors
    /// Returns the error of `beat`.
    pub fn text_between<E>(
        &self,
        mut text: &str,
        beat: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<usize, E> {
        let Some(encoding) = self.encoding else { return Ok(estimate(text)) };
        let mut total = 0;
        while !text.is_empty() {
            let (piece, rest) = text.split_at(seam(text));
            // `encode` gives up where `encode_ordinary` would panic: on runs that its pattern cannot match.
            let tokens = encoding.encode(piece, &HashSet::new());
            total += tokens.map_or_else(|_| estimate(piece), |(tokens, _)| tokens.len());
            beat()?;
            text = rest;
        }
        Ok(total)
    }
}

fn has_media(message: &Json) -> bool {
    message.list("content").iter().any(is_medium)
}

/// Estimates the tokens of the data of a file: those of a page of about 100 KB in base64.
fn of_file(part: &Json) -> usize {
    const BYTES: usize = 50;
    part.at_path("file.file_data").as_str().map_or(0, str::len) / BYTES
}

/// A part that is not text.
fn is_medium(part: &Json) -> bool {
    let is_text =
        matches!(part.text("type").as_deref(), Some("text" | "input_text" | "output_text" | "refusal"));
    part.as_object().is_some() && !is_text && part.text("text").is_none()
}

/// The place at which to cut a text into pieces without cutting a token: before a space between two words, which every
/// encoding keeps with the second. A piece without one is cut at its full length.
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

/// The encoding of a model, unpacked from the files built in when it is first used; none when only an
/// estimate is possible.
fn encoding(model: &str) -> Option<&'static CoreBPE> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let tokenizer = get_tokenizer(name).or_else(|| is_openai(name).then_some(Tokenizer::O200kBase));
    tokenizer.map(vocabulary::encoding)
}

/// `gpt-…`, `chatgpt-…`, or `o` and a digit.
fn is_openai(name: &str) -> bool {
    let numbered = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered || name.starts_with("gpt") || name.starts_with("chatgpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_part_of_a_message_counts_and_malformed_ones_are_accepted() {
        let count = |text: &str| of_messages(&[message(text)], "gpt-4o");
        let hello = count(r#"{"role":"user","content":"hello world"}"#);
        assert_eq!(hello, Count { tokens: 9, is_estimate: false });
        let with_image = count(
            r#"{"role":"user","content":[{"type":"text","text":"hello world"},{"type":"image_url","image_url":{"url":"data:x"}}]}"#,
        );
        assert_eq!(with_image, Count { tokens: 9 + MEDIUM, is_estimate: true });
        for calls in [r#""{\"a\":1}""#, r#"{"a":1}"#] {
            let called = count(&format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"function":{{"name":"f","arguments":{calls}}}}}]}}"#
            ));
            assert!(called.tokens > count(r#"{"role":"assistant","content":null}"#).tokens + 4, "{calls}");
        }
        for odd in ["null", "7", "[]", r#"{"role":7,"content":{"a":1},"tool_calls":[1,null]}"#] {
            assert!(count(odd).tokens <= 2 * PER_MESSAGE, "{odd}");
        }
        assert_eq!(of_messages(&[], "gpt-4o").tokens, 3);
    }

    #[test]
    fn tokens_of_other_models_are_estimated() {
        let texts = [message(r#"{"role":"user","content":"hello world"}"#)];
        assert_eq!(of_messages(&texts, "claude-3"), Count { tokens: 3 + 3 + 1 + 3, is_estimate: true });
    }
}
