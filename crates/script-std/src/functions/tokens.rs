//! `tokens::count`: the number of tokens of a text or conversation.

use super::argument::{RhaiResultOf, unfit};
use super::output::Pulse;
use rhai::plugin::*;
use valvehouse_dialect::value::json_of;
use valvehouse_json::Json;
use valvehouse_tokens::{BESIDE, Counter, DEFAULT_MODEL};

#[export_module]
pub(super) mod functions {
    /// Counts the tokens of a text, or of messages as OpenAI does: their texts, 3 more for each message
    /// and 3 for the answer; images are not counted. Uses the encoding of current OpenAI models (o200k).
    #[rhai_fn(return_raw)]
    pub fn count(text_or_messages: Dynamic) -> RhaiResultOf<i64> {
        total(&text_or_messages, DEFAULT_MODEL)
    }

    /// Counts the tokens of a text or of messages for this model: exact for OpenAI's models with any
    /// provider, for any other model an estimate of four bytes per token.
    #[rhai_fn(return_raw, name = "count")]
    pub fn count_for(text_or_messages: Dynamic, model: &str) -> RhaiResultOf<i64> {
        total(&text_or_messages, model)
    }
}

fn total(value: &Dynamic, model: &str) -> RhaiResultOf<i64> {
    let (counter, mut pulse) = (Counter::of(model), Pulse::new());
    let mut beat = || pulse.beat();
    let tokens = match json_of(value)? {
        Json::Text(text) => counter.text_between(&text, &mut beat)?,
        Json::Array(messages) => {
            let mut tokens = BESIDE;
            for message in messages.items() {
                tokens += counter.message_between(&message, &mut beat)?;
            }
            tokens
        }
        _ => return Err(unfit("tokens::count", "text_or_messages", "a text or an array of messages", value)),
    };
    Ok(tokens as i64)
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn texts_are_counted_in_the_encoding_of_the_model() {
        gives(&[
            (r#"tokens::count("")"#, "0"),
            (r#"tokens::count("hello world")"#, "2"),
            (r#"tokens::count("hello world", "openai/gpt-4o-mini")"#, "2"),
            // OpenAI's published example of different encodings: お誕生日おめでとう.
            (r#"tokens::count("お誕生日おめでとう", "gpt-4")"#, "9"),
            (r#"tokens::count("お誕生日おめでとう", "gpt-4o")"#, "8"),
            (r#"tokens::count("お誕生日おめでとう", "o9-future")"#, "8"),
            (r#"tokens::count("お誕生日おめでとう", "davinci")"#, "14"),
            (r#"tokens::count("hello world", "claude-3")"#, "3"),
        ]);
        refuses(&[("tokens::count(5)", "must be a text or an array of messages, not number")]);
    }

    #[test]
    fn messages_are_counted_like_the_openai_cookbook() {
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
            // Two tokens each; splitting the text does not change the sum.
            (r#"tokens::count(text::replace(big(20_000), "x", " hello a"))"#, "40000"),
            (r#"let s = text::replace(big(70_000), "x", "A"); tokens::count(s) > 8_000"#, "true"),
            (r#"let s = text::replace(big(70_000), "x", "ä"); tokens::count(s) > 8_000"#, "true"),
            (r#"tokens::count("<|endoftext|>") > 3"#, "true"),
        ]);
    }
}
