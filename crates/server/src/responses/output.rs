//! The items of an answer.

use super::input::sealed;
use super::object::object;
use super::resource::Resource;
use super::tools::Spaces;
use valvehouse_json::Json;

/// An item of reasoning.
pub(super) fn reasoning(
    id: &str,
    text: &str,
    blocks: Option<&Json>,
    resource: &Resource,
    status: &str,
) -> Json {
    let parts = |is_there: bool| match is_there && !text.is_empty() {
        true => vec![reasoning_part(text, resource.with_summary)],
        false => Vec::new(),
    };
    let item = vec![
        ("id", id.into()),
        ("type", "reasoning".into()),
        ("status", status.into()),
        ("summary", parts(resource.with_summary).into()),
        ("content", parts(!resource.with_summary).into()),
    ];
    let encrypted = (resource.with_encrypted && status != "in_progress")
        .then(|| ("encrypted_content", sealed(text, blocks).into()));
    object(item.into_iter().chain(encrypted))
}

pub(super) fn reasoning_part(text: &str, is_summary: bool) -> Json {
    let kind = if is_summary { "summary_text" } else { "reasoning_text" };
    Json::from([("type", kind.into()), ("text", text.into())])
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
pub(super) fn call(
    id: &str,
    call_id: &str,
    name: &str,
    given: &str,
    is_custom: bool,
    status: &str,
    spaces: &Spaces,
) -> Json {
    let (kind, key) = if is_custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
    let space = spaces.get(name);
    let name = space.map_or(name, |(_, name)| name);
    let item = vec![
        ("id", id.into()),
        ("type", kind.into()),
        ("status", status.into()),
        ("call_id", call_id.into()),
        ("name", name.into()),
        (key, given.into()),
    ];
    object(item.into_iter().chain(space.map(|(space, _)| ("namespace", space.as_str().into()))))
}
