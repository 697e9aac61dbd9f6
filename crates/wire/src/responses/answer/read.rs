//! Conversion of a response to the answer of a chat.

use crate::answer_error::{AnswerError, check_name, is_error, status_in};
use crate::responses::order::{ItemOrder, phase_of};
use crate::responses::tools::joined;
use crate::responses::usage;
use valvehouse_core::chat::message::TEXT_BREAK;
use valvehouse_core::chat::{CONTENT_BLOCKS, Ending};
use valvehouse_json::{Json, Object};

/// Reads a service's answer.
///
/// # Errors
/// Returns the error of a failed response, and an error for a response that is not complete.
pub fn read(response: &Json) -> Result<Json, AnswerError> {
    if response.get("output").is_some_and(|output| output.is_array()) {
        return completion(response);
    }
    match is_error(response) {
        true => Err(failed(response)),
        false => Err(AnswerError::Lacks("output", response.clone())),
    }
}

fn completion(response: &Json) -> Result<Json, AnswerError> {
    match response.text("status").as_deref() {
        Some(status) if Ending::of(status).is_failure() => return Err(failed(response)),
        Some("queued" | "in_progress") => {
            return Err(AnswerError::Cut("its status is not `completed`".into()));
        }
        _ => {}
    }
    let message = Json::from([("role", "assistant".into()), ("content", Json::Null)]);
    let (mut text, mut refusal, mut thoughts) = (String::new(), String::new(), Vec::new());
    let (mut calls, mut sources, mut logprobs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut order, mut says) = (ItemOrder::default(), false);
    for item in response.list("output") {
        match &*item.text_or_empty("type") {
            "message" => {
                says = true;
                let begin = text.len();
                for part in item.list("content") {
                    text.push_str(&part.text_or_empty("text"));
                    refusal.push_str(&part.text_or_empty("refusal"));
                    sources.extend(part.list("annotations").iter().map(annotation));
                    logprobs.extend(part.list("logprobs"));
                }
                order.text(text[begin..].into(), phase_of(&item));
            }
            "function_call" | "custom_tool_call" => {
                check_name(&item)?;
                order.call(item.text_or_empty("call_id"));
                calls.push(call(&item));
            }
            "reasoning" => {
                let own = thought(&item);
                if !own.is_empty() {
                    order.thought(&own.join(TEXT_BREAK));
                }
                thoughts.extend(own);
                if let Some(item) = opaque(&item) {
                    order.item(item);
                }
            }
            _ => order.item(item),
        }
    }
    if says {
        message.put("content", text);
    }
    let put = |key: &str, list: Vec<Json>| {
        if !list.is_empty() {
            message.put(key, list);
        }
    };
    put("tool_calls", calls.clone());
    put("annotations", sources);
    put(CONTENT_BLOCKS, order.blocks(false));
    message.put("refusal", if refusal.is_empty() { Json::Null } else { refusal.into() });
    if !thoughts.is_empty() {
        message.put("reasoning_content", thoughts.join(TEXT_BREAK));
    }
    let reason = finish_reason(response, !calls.is_empty());
    let logprobs = match logprobs.is_empty() {
        true => Json::Null,
        false => Json::from([("content", logprobs.into())]),
    };
    let choice = Json::from([
        ("index", 0_i64.into()),
        ("message", message),
        ("logprobs", logprobs),
        ("finish_reason", reason.into()),
    ]);
    let mut fields = head(response, "chat.completion");
    fields.push(("choices", vec![choice].into()));
    fields.extend(usage::read(response).map(|usage| ("usage", usage)));
    Ok(Json::from_fields(fields))
}

/// Returns the fields that identify an answer.
pub(in crate::responses) fn head(response: &Json, kind: &'static str) -> Vec<(&'static str, Json)> {
    let mut head = vec![
        ("id", response.field("id")),
        ("object", kind.into()),
        ("created", response.field("created_at")),
        ("model", response.field("model")),
    ];
    head.extend(response.given("service_tier").map(|tier| ("service_tier", tier)));
    head
}

/// Returns the finish reason of a chat.
pub(in crate::responses) fn finish_reason(response: &Json, calls: bool) -> &'static str {
    let reason = response.at_path("incomplete_details.reason").as_str().map(Ending::of);
    match response.text("status").as_deref() {
        // Without a known reason, a limit cut the answer.
        Some("incomplete") => reason.filter(|reason| !reason.is_complete()).unwrap_or(Ending::Length),
        Some(status) if Ending::of(status).is_failure() => Ending::Failed,
        _ if calls => Ending::ToolCalls,
        _ => Ending::Stop,
    }
    .finish_reason()
}

/// Returns the visible thoughts of an item as one text; `None` if there are none.
pub(in crate::responses) fn shown(item: &Json) -> Option<String> {
    let thoughts = thought(item).join(TEXT_BREAK);
    (!thoughts.is_empty()).then_some(thoughts)
}

/// Returns the visible thoughts of an item: its summary, or else its content.
fn thought(item: &Json) -> Vec<String> {
    let texts = |key: &str| {
        let parts = item.list(key).into_iter();
        parts.filter_map(|part| Some(part.text("text")?.to_string())).collect::<Vec<_>>()
    };
    let summary = texts("summary");
    if summary.is_empty() { texts("content") } else { summary }
}

/// Returns a reasoning item without its texts, which filters read as the thoughts of the message; `None` if
/// it has no encrypted content.
pub(in crate::responses) fn opaque(item: &Json) -> Option<Json> {
    item.given("encrypted_content")?;
    let none: Vec<Json> = Vec::new();
    let kept = item.entries().into_iter().filter_map(|(key, value)| match key.as_str() {
        "content" => None,
        "summary" => Some((key, none.clone().into())),
        // The item is complete, so its status is omitted.
        "status" => None,
        _ => Some((key, value)),
    });
    Some(kept.collect::<Object>().into())
}

/// Returns the name of a called tool in the chat.
pub(in crate::responses) fn name_of(item: &Json) -> Json {
    match item.text("namespace").filter(|space| !space.is_empty()) {
        Some(space) => joined(&space, &item.text_or_empty("name")).into(),
        None => item.field("name"),
    }
}

/// Converts a call to the format of chats.
fn call(item: &Json) -> Json {
    let is_custom = item.is_text("type", "custom_tool_call");
    let (kind, key) = if is_custom { ("custom", "input") } else { ("function", "arguments") };
    let called = Json::from([("name", name_of(item)), (key, item.field(key))]);
    Json::from([("id", item.field("call_id")), ("type", kind.into()), (kind, called)])
}

/// Converts the source of a text: chats nest it in an object named by its type.
pub(in crate::responses) fn annotation(given: &Json) -> Json {
    let kind = given.text_or_empty("type");
    let fields = given.entries().into_iter().filter(|(key, _)| key != "type");
    Json::from([("type", kind.clone().into()), (&*kind, Json::from(fields.collect::<Object>()))])
}

/// Returns the error in a failed response or in an event; `None` if it has none. In an `error` event, the code and the
/// message are beside the type.
pub(in crate::responses) fn error_in(event: &Json) -> Option<Json> {
    let nested = event.at_path("response.error");
    event.given("error").or((!nested.is_null()).then_some(nested)).or_else(|| {
        ["code", "message"].into_iter().find_map(|key| event.given(key))?;
        let is_own = |key: &str| !matches!(key, "type" | "sequence_number" | "response");
        let fields = event.entries().into_iter().filter(|(key, _)| is_own(key));
        Some(fields.collect::<Object>().into())
    })
}

/// Returns the error of a failed response or of an event.
pub(in crate::responses) fn failed(event: &Json) -> AnswerError {
    let error = error_in(event).unwrap_or_else(|| {
        let message = "the response of the service failed without a reason";
        Json::from([("code", "server_error".into()), ("message", message.into())])
    });
    let sent = Json::from([("error", error.deep_clone())]);
    if let error @ Json::Object(_) = sent.field("error")
        && error.given("type").is_none()
    {
        // Errors of responses only have a code, but clients of chats read the type.
        error.put("type", kind_of(status_in(&sent)));
    }
    AnswerError::Sent(sent)
}

/// Returns the error type of chats for a status.
fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}
