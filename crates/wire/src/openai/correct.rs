//! Correction of what services send in other places or types than OpenAI's chat API, for filters and for all clients whose
//! answer is read.

use valvehouse_core::chat::content_blocks::thinking_in;
use valvehouse_core::chat::event::REASONING;
use valvehouse_core::chat::message::text_of;
use valvehouse_json::Json;

/// Corrects an answer or an event of it in place: a `usage` of another type is dropped, because no guard reads it, an
/// `index` that is not an integer becomes the position of its choice, and Mistral's parts of thinking become
/// `reasoning_content`. `has_parts` is set once an answer has such parts; its other contents are texts from then on.
/// Returns `true` if anything was changed.
pub(super) fn correct(answer: &Json, has_parts: &mut bool) -> bool {
    let mut is_changed = is_odd(answer, "usage", Json::is_object) && answer.remove("usage").is_some();
    let Some(Json::Array(choices)) = answer.get("choices") else { return is_changed };
    choices.with(|choices| {
        for (place, choice) in choices.iter().enumerate() {
            is_changed |= is_odd(choice, "index", |index| index.as_i64().is_some())
                && choice.set("index", place).is_ok();
            let Json::Object(fields) = choice else { continue };
            for key in ["message", "delta"] {
                is_changed |=
                    fields.with(key, |message| message.is_some_and(|own| move_thinking(own, has_parts)));
            }
        }
    });
    is_changed
}

/// Returns `true` if a field is neither missing nor null, and not as it should be.
fn is_odd(of: &Json, key: &str, is_usual: impl Fn(&Json) -> bool) -> bool {
    let Json::Object(fields) = of else { return false };
    fields.with(key, |value| value.is_some_and(|value| !value.is_null() && !is_usual(value)))
}

/// Moves the parts of thinking in a message or delta to `reasoning_content`, unless the service sends it twice, and writes
/// the text parts as one text.
fn move_thinking(message: &Json, has_parts: &mut bool) -> bool {
    if !is_odd(message, "content", |content| content.as_str().is_some()) {
        return false;
    }
    let Some(Json::Array(parts)) = message.get("content") else { return false };
    let parts = parts.items();
    let is_thinking = |part: &Json| part.is_text("type", "thinking");
    *has_parts |= parts.iter().any(is_thinking);
    if !*has_parts {
        return false;
    }
    let thinking = thinking_in(&message.field("content"));
    if !thinking.is_empty() && REASONING.iter().all(|name| message.field(name).is_empty()) {
        message.edit(REASONING[0], thinking);
    }
    let others: Vec<Json> = parts.into_iter().filter(|part| !is_thinking(part)).collect();
    let is_text = others.iter().all(|part| part.is_text("type", "text"));
    message.edit("content", if is_text { text_of(message).into() } else { Json::from(others) });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_answers_become_those_of_the_chat_api() {
        for (given, expected) in [
            (r#"{"choices":[],"usage":"a secret"}"#, r#"{"choices":[]}"#),
            (r#"{"choices":[{"index":"x"},{"index":1}]}"#, r#"{"choices":[{"index":0},{"index":1}]}"#),
            (
                r#"{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#,
                r#"{"choices":[{"message":{"content":"ab","reasoning_content":"hm"}}]}"#,
            ),
            (
                r#"{"choices":[{"delta":{"reasoning":"hm","content":[{"type":"thinking","thinking":"hm"},{"type":"x"}]}}]}"#,
                r#"{"choices":[{"delta":{"reasoning":"hm","content":[{"type":"x"}]}}]}"#,
            ),
        ] {
            let answer = Json::parse(given.as_bytes()).unwrap();
            assert!(correct(&answer, &mut false), "{given}");
            assert_eq!(answer.to_string(), expected);
        }
        let usual =
            br#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}],"usage":null}"#;
        let usual = Json::parse(usual).unwrap();
        assert!(!correct(&usual, &mut false) && !usual.is_changed());
        assert!(correct(&usual, &mut true) && usual.at_path("choices.0.delta.content") == Json::from("a"));
    }
}
