//! Errors of answers: those that services send, and those of answers that cannot be read.

use crate::messages;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use valvehouse_core::ErrorCode;
use valvehouse_core::chat::call::{BadCall, text_name};
use valvehouse_json::Json;

/// An answer of a service, or an event of it, that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnswerError {
    /// The service sent an error instead of the answer or of its rest.
    Sent(Json),
    /// The answer ended early, for this reason.
    Cut(Cow<'static, str>),
    /// A tool call that no client and no filter could read.
    Call(BadCall),
    /// The answer lacks a field.
    Lacks(&'static str, Json),
    /// Something else instead of the answer, as an error says it after the name of the service.
    Unexpected(String),
}

impl From<BadCall> for AnswerError {
    fn from(error: BadCall) -> Self {
        Self::Call(error)
    }
}

/// Checks the name of a tool in a call, which no client could answer without it.
pub(crate) fn check_name(tool: &Json) -> Result<(), BadCall> {
    if text_name(tool)?.is_empty() { Err(BadCall::NoName) } else { Ok(()) }
}

/// Returns `true` for an error instead of an answer or of a chunk.
pub fn is_error(event: &Json) -> bool {
    let Json::Object(object) = event else { return false };
    object.with("error", |error| error.is_some_and(|error| !error.is_empty()))
        || event.is_text("object", "error")
        || event.is_text("type", "error")
        || (object.contains("detail") && !object.contains("choices"))
}

/// Returns the error in a list, as Gemini sends it; any other value is returned unchanged.
#[inline]
pub fn unwrapped(body: Json) -> Json {
    let Json::Array(list) = &body else { return body };
    let error = list.with(|items| items.first().filter(|first| first.get("error").is_some()).cloned());
    error.unwrap_or(body)
}

/// The range of error statuses.
const ERRORS: RangeInclusive<i64> = 400..=599;

/// The statuses for the codes and types of errors without a status, besides Anthropic's.
const STATUSES: [(&str, u16); 12] = [
    ("rate_limit_exceeded", 429),
    ("too_many_requests", 429),
    ("insufficient_quota", 429),
    ("context_length_exceeded", 400),
    ("exceed_context_size_error", 400),
    ("content_policy_violation", 400),
    ("content_filter", 400),
    ("invalid_prompt", 400),
    ("invalid_request", 400),
    ("invalid_api_key", 401),
    ("not_found", 404),
    ("server_overloaded", 503),
];

/// Returns the HTTP status of an error that a service sent with a successful status.
pub fn status_in(event: &Json) -> u16 {
    let error = event.field("error");
    let numbers = [error.get("status_code"), error.get("status"), error.get("code"), event.get("code")];
    let status = numbers.into_iter().flatten().find_map(|value| error_status(&value));
    let status =
        status.or_else(|| ["code", "type"].into_iter().find_map(|key| status_of_word(&error.text(key)?)));
    settled(status.unwrap_or(502), event)
}

/// Returns the status of an error that a service sent. Some services call a conversation that is too long a failure of
/// their own, but a retry cannot help.
pub fn settled(status: u16, body: &Json) -> u16 {
    let is_too_long = ErrorCode::of_service(status, body) == Some(ErrorCode::ContextLength);
    if is_too_long && status >= 500 { 400 } else { status }
}

fn status_of_word(word: &str) -> Option<u16> {
    let own = STATUSES.iter().find(|(own, _)| *own == word).map(|(_, status)| *status);
    own.or_else(|| messages::status_of(word))
}

/// Returns an error status, from a number or a text that contains one.
fn error_status(value: &Json) -> Option<u16> {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    ERRORS.contains(&number).then(|| u16::try_from(number).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn error_bodies_of_every_shape_are_recognized() {
        for (text, error) in [
            (r#"{"error":{"message":"m"}}"#, true),
            (r#"{"code":"c","error":"text"}"#, true),
            (r#"{"object":"error","message":"m"}"#, true),
            (r#"{"type":"error","error":{}}"#, true),
            (r#"{"detail":"Unauthorized"}"#, true),
            (r#"{"choices":[],"error":null}"#, false),
            (r#"{"choices":[],"detail":1}"#, false),
            ("[]", false),
        ] {
            assert_eq!(is_error(&json(text)), error, "{text}");
        }
    }

    #[test]
    fn a_valid_status_inside_the_error_is_used() {
        for (text, expected) in [
            (r#"{"error":{"status_code":400,"code":"tool_use_failed"}}"#, 400),
            (r#"{"error":{"code":"429"}}"#, 429),
            (r#"{"error":"busy","code":503}"#, 503),
            (r#"{"error":{"code":200}}"#, 502),
            (r#"{"error":{"code":null,"type":"rate_limit_error"}}"#, 429),
            (r#"{"error":{"code":"context_length_exceeded","type":"invalid_request_error"}}"#, 400),
            (r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#, 429),
            (r#"{"error":{"type":"overloaded_error"}}"#, 529),
            (r#"{"error":{"type":"server_error"}}"#, 502),
            (r#"{"error":{"message":"the prompt exceeds the context window"}}"#, 400),
        ] {
            assert_eq!(status_in(&json(text)), expected, "{text}");
        }
    }
}
