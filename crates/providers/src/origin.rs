//! The origin of an answer, as named in errors, and the conversion of services' errors.

use bytes::Bytes;
use std::ops::RangeInclusive;
use std::sync::Arc;
use valvehouse_config::Secret;
use valvehouse_core::ErrorCode;
use valvehouse_core::chat::call::{BadCall, text_name};
use valvehouse_core::error::{Error, Explanation};
use valvehouse_json::Json;
use valvehouse_net::Response;

/// The maximum number of bytes that are read of an error's body.
const ERROR_BODY: usize = 256 * 1024;

/// The maximum number of characters of an error that is not JSON.
const ERROR_TEXT: usize = 2000;

/// The range of error statuses.
const ERRORS: RangeInclusive<i64> = 400..=599;

/// The statuses for the codes and types of errors without a status.
const STATUSES: [(&str, u16); 17] = [
    ("rate_limit_exceeded", 429),
    ("rate_limit_error", 429),
    ("too_many_requests", 429),
    ("insufficient_quota", 429),
    ("context_length_exceeded", 400),
    ("exceed_context_size_error", 400),
    ("content_policy_violation", 400),
    ("content_filter", 400),
    ("invalid_prompt", 400),
    ("invalid_request", 400),
    ("invalid_request_error", 400),
    ("invalid_api_key", 401),
    ("authentication_error", 401),
    ("permission_error", 403),
    ("not_found", 404),
    ("not_found_error", 404),
    ("server_overloaded", 503),
];

/// The name and address of a service for errors. The key is included only to redact it.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) provider: Arc<str>,
    pub(super) address: String,
    pub(super) key: Option<Secret>,
}

impl Origin {
    /// Returns the error for an unusable response of the service.
    pub(super) fn error(&self, what: &str) -> Error {
        let public = format!("provider {} {what}", self.provider);
        let message =
            Explanation::new(public, format!("provider {} at {} {what}", self.provider, self.address));
        Error::Provider { message, timeout: false }
    }

    /// Returns the error for an unusable response that begins with `start`. Clients do not see it, because filters have
    /// not checked it.
    pub(super) fn error_quoting(&self, what: &str, start: &str) -> Error {
        let public = format!("provider {} {what}", self.provider);
        let full = format!("provider {} at {} {what}; it begins: {start}", self.provider, self.address);
        Error::Provider { message: Explanation::new(public, full), timeout: false }
    }

    /// Returns the error for a tool call that cannot be read.
    pub(super) fn bad_call(&self, error: BadCall) -> Error {
        self.error(&format!("sent {error}"))
    }

    /// Checks the name of a tool in a call, which no client could answer without it.
    pub(super) fn check_name(&self, tool: &Json) -> Result<(), Error> {
        match text_name(tool) {
            Ok(name) if name.is_empty() => Err(self.bad_call(BadCall::NoName)),
            Ok(_) => Ok(()),
            Err(error) => Err(self.bad_call(error)),
        }
    }

    /// Parses one part of a stream, `an event` or `a line`. A damaged part at the end of the stream is
    /// reported as cut off.
    pub(super) fn parse_part(&self, part: &str, bytes: &[u8], is_ended: bool) -> Result<Json, Error> {
        Json::parse(bytes).map(unwrapped).map_err(|error| match is_ended {
            true => self.cut(&format!("it ends inside {part}")),
            false => {
                let what = format!("sent {part} that is not valid JSON: {error}");
                self.error_quoting(&what, &self.excerpt(bytes))
            }
        })
    }

    /// Returns the error for an answer that ended early.
    pub(super) fn cut(&self, why: &str) -> Error {
        let message = format!("the response of provider {} ended early: {why}", self.provider);
        Error::Provider { message: message.into(), timeout: false }
    }

    /// Returns the error for a response with an unsuccessful status.
    pub(super) async fn refused(&self, response: Response) -> Error {
        let status = response.status;
        if (300..400).contains(&status) {
            let target = self.redact(response.header("location").unwrap_or("nowhere").as_bytes());
            let public = format!(
                "provider {} redirects to another address, to which the key is not sent",
                self.provider
            );
            let full = format!(
                "provider {} at {} redirects to {target}, to which the key is not sent; correct the base_url of the provider",
                self.provider, self.address
            );
            return Error::Provider { message: Explanation::new(public, full), timeout: false };
        }
        if !(400..600).contains(&status) {
            return self.error(&format!("returned the unexpected status {status}"));
        }
        let retry_after = retry_after(&response);
        // If the body breaks off, the status still applies.
        let (body, _) = response.start(ERROR_BODY).await.unwrap_or_default();
        self.answered(status, self.error_body(&body), retry_after)
    }

    /// Returns the error in the body of a successful response.
    pub(super) fn in_band(&self, event: &Json) -> Error {
        let error = event.field("error");
        let status = [error.get("status_code"), error.get("status"), error.get("code"), event.get("code")]
            .into_iter()
            .flatten()
            .find_map(|value| error_status(&value));
        let status =
            status.or_else(|| ["code", "type"].into_iter().find_map(|key| status_of(&error.text(key)?)));
        self.answered(status.unwrap_or(502), self.error_body(event.to_string().as_bytes()), None)
    }

    /// Returns the error that a service sent. Some services call a conversation that is too long a failure of their own,
    /// but a retry cannot help.
    fn answered(&self, status: u16, body: Json, retry_after: Option<String>) -> Error {
        let is_too_long = ErrorCode::of_service(status, &body) == Some(ErrorCode::ContextLength);
        let status = if is_too_long && status >= 500 { 400 } else { status };
        Error::Answered { provider: self.provider.to_string(), status, body, retry_after }
    }

    /// Returns the beginning of an unexpected response on one line, at most 200 characters long.
    pub(super) fn excerpt(&self, bytes: &[u8]) -> String {
        let text = self.redact(bytes);
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").chars().take(200).collect()
    }

    fn error_body(&self, body: &[u8]) -> Json {
        let text = self.redact(body);
        match Json::parse(text.as_bytes()) {
            Ok(json) => unwrapped(json),
            Err(_) => text.chars().take(ERROR_TEXT).collect::<String>().into(),
        }
    }

    fn redact(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        match &self.key {
            Some(key) => key.redact(&text),
            None => text.into_owned(),
        }
    }
}

/// Returns the error in a list, as Gemini sends it; any other value is returned unchanged.
pub(super) fn unwrapped(body: Json) -> Json {
    let Json::Array(list) = &body else { return body };
    let error = list.with(|items| items.first().filter(|first| first.get("error").is_some()).cloned());
    error.unwrap_or(body)
}

/// Returns the status for an error code or type.
fn status_of(word: &str) -> Option<u16> {
    STATUSES.iter().find(|(own, _)| *own == word).map(|(_, status)| *status)
}

/// Returns the time of the next attempt, as in `Retry-After`. Some services send it in milliseconds.
fn retry_after(response: &Response) -> Option<String> {
    let ms = response.header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok());
    match ms.filter(|ms| ms.is_finite() && *ms >= 0.0) {
        Some(ms) => Some((ms / 1_000.0).to_string()),
        None => response.header("retry-after").filter(|text| is_time(text)).map(str::to_owned),
    }
}

/// Returns `true` for a number of seconds or a date. Only such a value is passed to clients.
pub(super) fn is_time(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok() || jiff::fmt::rfc2822::parse(text.trim()).is_ok()
}

/// Returns `true` for an error instead of an answer or of a chunk.
pub(super) fn is_error(event: &Json) -> bool {
    let Json::Object(object) = event else { return false };
    let is = |key: &str, word: &str| event.text(key).is_some_and(|text| text == word);
    object.with("error", |error| error.is_some_and(|error| !error.is_empty()))
        || is("object", "error")
        || is("type", "error")
        || (object.contains("detail") && !object.contains("choices"))
}

/// Returns an error status, from a number or a text that contains one.
fn error_status(value: &Json) -> Option<u16> {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    ERRORS.contains(&number).then(|| u16::try_from(number).ok()).flatten()
}

/// Returns the kind of a body without a media type, judged by its beginning.
pub(super) fn guess(start: &Bytes) -> Shape {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    match start.first() {
        Some(b'{') => Shape::Json,
        Some(_) if fields.iter().any(|field| field.starts_with(start) || start.starts_with(field)) => {
            Shape::Events
        }
        _ => Shape::Other,
    }
}

/// Returns the kind of a response's body, from its media type or else from its beginning.
pub(super) async fn shape_of(response: &mut Response) -> Result<Shape, Error> {
    Ok(match &*response.media_type() {
        "text/event-stream" => Shape::Events,
        kind if kind == "application/json" || kind.ends_with("+json") => Shape::Json,
        "" | "text/plain" | "application/octet-stream" => guess(&response.peek().await?),
        _ => Shape::Other,
    })
}

/// The kind of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Json,
    Events,
    Other,
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
        let origin = Origin { provider: "p".into(), address: "http://p".into(), key: Some("sk-1".into()) };
        for (text, expected) in [
            (r#"{"error":{"status_code":400,"code":"tool_use_failed"}}"#, 400),
            (r#"{"error":{"code":"429"}}"#, 429),
            (r#"{"error":"busy","code":503}"#, 503),
            (r#"{"error":{"code":200}}"#, 502),
            (r#"{"error":{"code":null,"type":"rate_limit_error"}}"#, 429),
            (r#"{"error":{"code":"context_length_exceeded","type":"invalid_request_error"}}"#, 400),
            (r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#, 429),
            (r#"{"error":{"type":"server_error"}}"#, 502),
            (r#"{"error":{"message":"bad key sk-1"}}"#, 502),
            (r#"{"error":{"message":"the prompt exceeds the context window"}}"#, 400),
        ] {
            match origin.in_band(&json(text)) {
                Error::Answered { status, body, .. } => {
                    assert_eq!(status, expected, "{text}");
                    assert!(!body.to_string().contains("sk-1"));
                }
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn the_start_of_a_body_identifies_its_format() {
        for (text, shape) in [
            ("\n{", Shape::Json),
            (": hi", Shape::Events),
            ("da", Shape::Events),
            ("data:{}", Shape::Events),
            ("<html>", Shape::Other),
            ("", Shape::Other),
        ] {
            assert_eq!(guess(&Bytes::from(text)), shape, "{text}");
        }
    }
}
