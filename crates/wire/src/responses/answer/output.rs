//! The items of a response's output.

use super::resource::Resource;
use crate::responses::id::new_id;
use crate::responses::request::sealed;
use crate::responses::tools::Spaces;
use valvehouse_json::Json;

/// Returns a reasoning item.
pub(in crate::responses) fn reasoning(
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
    Json::from_fields(item.into_iter().chain(encrypted))
}

/// Returns a reasoning item that its provider encrypted: the provider's content, with the text after the
/// filters.
pub(in crate::responses) fn encrypted_reasoning(
    id: &str,
    text: &str,
    sent: &Json,
    resource: &Resource,
    status: &str,
) -> Json {
    let own = reasoning(id, text, None, resource, status);
    own.remove("encrypted_content");
    // The client requested it, or needs it because it stores its own state.
    if status != "in_progress" {
        own.put("encrypted_content", sent.field("encrypted_content"));
    }
    own
}

pub(in crate::responses) fn reasoning_part(text: &str, is_summary: bool) -> Json {
    let kind = if is_summary { "summary_text" } else { "reasoning_text" };
    Json::from([("type", kind.into()), ("text", text.into())])
}

/// Returns a message of the model.
pub(in crate::responses) fn message(id: &str, parts: Vec<Json>, phase: Option<&str>, status: &str) -> Json {
    let item = [
        ("id", id.into()),
        ("type", "message".into()),
        ("status", status.into()),
        ("role", "assistant".into()),
        ("content", parts.into()),
    ];
    Json::from_fields(item.into_iter().chain(phase.map(|phase| ("phase", phase.into()))))
}

/// Returns a summary that replaces the conversation.
pub fn compaction(summary: &str) -> Json {
    Json::from([
        ("id", new_id("cmp").into()),
        ("type", "compaction".into()),
        ("encrypted_content", sealed(summary, None).into()),
    ])
}

/// Returns the text part of a message, with its sources and log probabilities.
pub(in crate::responses) fn text_part(text: &str, annotations: &[Json], logprobs: &[Json]) -> Json {
    Json::from([
        ("type", "output_text".into()),
        ("text", text.into()),
        ("annotations", annotations.to_vec().into()),
        ("logprobs", logprobs.to_vec().into()),
    ])
}

/// Returns a source of a text without the nested object that chats use.
pub(in crate::responses) fn annotation(given: &Json) -> Json {
    let kind = given.text_or_empty("type");
    let Some(Json::Object(inner)) = given.get(&kind) else { return given.deep_clone() };
    let fields = inner.entries().into_iter().map(|(key, value)| (key, value.deep_clone()));
    Json::from_fields([("type".into(), kind.into())].into_iter().chain(fields))
}

/// Returns the log probability of a token, with all fields that clients read.
pub(in crate::responses) fn logprob(given: &Json) -> Json {
    let given = given.deep_clone();
    let token = given.text_or_empty("token");
    if given.get("bytes").is_none_or(|bytes| bytes.is_null()) {
        let bytes: Vec<Json> = token.bytes().map(|byte| i64::from(byte).into()).collect();
        given.put("bytes", bytes);
    }
    if given.get("top_logprobs").is_none_or(|top| top.is_null()) {
        given.put("top_logprobs", Json::array());
    }
    given
}

pub(in crate::responses) fn refusal_part(text: &str) -> Json {
    Json::from([("type", "refusal".into()), ("refusal", text.into())])
}

/// Returns a call of a function or of a custom tool, with the arguments or input received so far.
pub(in crate::responses) fn call(
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
    Json::from_fields(item.into_iter().chain(space.map(|(space, _)| ("namespace", space.as_str().into()))))
}
