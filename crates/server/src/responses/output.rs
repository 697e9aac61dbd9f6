//! The items of an answer.

use super::input::sealed;
use super::object::object;
use valvehouse_json::Json;

/// An item of reasoning.
pub(super) fn reasoning(
    id: &str,
    text: &str,
    blocks: Option<&Json>,
    with_encrypted: bool,
    status: &str,
) -> Json {
    let content: Vec<Json> = if text.is_empty() { Vec::new() } else { vec![reasoning_part(text)] };
    let item = vec![
        ("id", id.into()),
        ("type", "reasoning".into()),
        ("status", status.into()),
        ("summary", Json::array()),
        ("content", content.into()),
    ];
    let encrypted = (with_encrypted && status != "in_progress")
        .then(|| ("encrypted_content", sealed(text, blocks).into()));
    object(item.into_iter().chain(encrypted))
}

pub(super) fn reasoning_part(text: &str) -> Json {
    Json::from([("type", "reasoning_text".into()), ("text", text.into())])
}

/// A message of the model.
pub(super) fn message(id: &str, parts: Vec<Json>, status: &str) -> Json {
    Json::from([
        ("id", id.into()),
        ("type", "message".into()),
        ("status", status.into()),
        ("role", "assistant".into()),
        ("content", parts.into()),
    ])
}

pub(super) fn text_part(text: &str) -> Json {
    Json::from([
        ("type", "output_text".into()),
        ("text", text.into()),
        ("annotations", Json::array()),
        ("logprobs", Json::array()),
    ])
}

pub(super) fn refusal_part(text: &str) -> Json {
    Json::from([("type", "refusal".into()), ("refusal", text.into())])
}

/// A call of a function, or of a custom tool, with its arguments or its input as far as they are there.
pub(super) fn call(id: &str, call_id: &str, name: &str, given: &str, is_custom: bool, status: &str) -> Json {
    let (kind, key) = if is_custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
    Json::from([
        ("id", id.into()),
        ("type", kind.into()),
        ("status", status.into()),
        ("call_id", call_id.into()),
        ("name", name.into()),
        (key, given.into()),
    ])
}
