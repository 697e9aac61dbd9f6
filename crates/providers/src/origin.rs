//! The origin of an answer, as errors name it, and the form of services' own errors.

use bytes::Bytes;
use std::ops::RangeInclusive;
use std::sync::Arc;
use valvehouse_config::Secret;
use valvehouse_core::error::{Error, Explanation};
use valvehouse_json::Json;
use valvehouse_net::Response;

/// As much of an error's body is read.
const ERROR_BODY: usize = 256 * 1024;

/// As many characters of an error that is not JSON are kept.
const ERROR_TEXT: usize = 2000;

/// The statuses of errors.
const ERRORS: RangeInclusive<i64> = 400..=599;

/// The statuses of codes and types of errors that come without a status.
const STATUSES: [(&str, u16); 14] = [
    ("rate_limit_exceeded", 429),
    ("rate_limit_error", 429),
    ("too_many_requests", 429),
    ("insufficient_quota", 429),
    ("context_length_exceeded", 400),
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

/// A service as errors name it. The key is included only to redact it.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) provider: Arc<str>,
    pub(super) address: String,
    pub(super) key: Option<Secret>,
}

impl Origin {
    /// The service did something no client can use.
    pub(super) fn error(&self, what: &str) -> Error {
        let public = format!("provider {} {what}", self.provider);
        let message =
            Explanation::new(public, format!("provider {} at {} {what}", self.provider, self.address));
        Error::Provider { message, timeout: false }
    }

    /// Reads one part of a stream, `an event` or `a line`; one that is damaged at the end of the stream was cut off.
    pub(super) fn parse_part(&self, part: &str, bytes: &[u8], is_ended: bool) -> Result<Json, Error> {
        Json::parse(bytes).map_err(|error| match is_ended {
            true => self.cut(&format!("it ends inside {part}")),
            false => {
                let start = self.excerpt(bytes);
                self.error(&format!("sent {part} that is not valid JSON: {error}; it begins: {start}"))
            }
        })
    }

    /// An answer that came without its end.
    pub(super) fn cut(&self, why: &str) -> Error {
        let message = format!("the response of provider {} ended early: {why}", self.provider);
        Error::Provider { message: message.into(), timeout: false }
    }

    /// An answer whose status is not a success.
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
        // A body that breaks off takes nothing from what the status says.
        let (body, _) = response.start(ERROR_BODY).await.unwrap_or_default();
        Error::Answered {
            provider: self.provider.to_string(),
            status,
            body: self.error_body(&body),
            retry_after,
        }
    }

    /// An error inside an answer that began as a success.
    pub(super) fn in_band(&self, event: &Json) -> Error {
        let error = event.field("error");
        let status = [error.get("status_code"), error.get("status"), error.get("code"), event.get("code")]
            .into_iter()
            .flatten()
            .find_map(|value| error_status(&value));
        let status =
            status.or_else(|| ["code", "type"].into_iter().find_map(|key| status_of(&error.text(key)?)));
        Error::Answered {
            provider: self.provider.to_string(),
            status: status.unwrap_or(502),
            body: self.error_body(event.to_string().as_bytes()),
            retry_after: None,
        }
    }

    /// The beginning of something unexpected, on one line.
    pub(super) fn excerpt(&self, bytes: &[u8]) -> String {
        let text = self.redact(bytes);
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").chars().take(200).collect()
    }

    fn error_body(&self, body: &[u8]) -> Json {
        let text = self.redact(body);
        match Json::parse(text.as_bytes()) {
            Ok(json) => json,
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

/// The status that an error of this code or type has where it is an answer of its own.
fn status_of(word: &str) -> Option<u16> {
    STATUSES.iter().find(|(own, _)| *own == word).map(|(_, status)| *status)
}

/// The time of the next attempt, as `Retry-After` says it; some services say it in milliseconds.
fn retry_after(response: &Response) -> Option<String> {
    let ms = response.header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok());
    match ms.filter(|ms| ms.is_finite() && *ms >= 0.0) {
        Some(ms) => Some((ms / 1_000.0).to_string()),
        None => response.header("retry-after").filter(|text| is_time(text)).map(str::to_owned),
    }
}

/// Returns `true` if this is a number of seconds or a date: it is passed on, and nothing else may be in it.
pub(super) fn is_time(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok() || jiff::fmt::rfc2822::parse(text.trim()).is_ok()
}

/// Returns `true` if this is an error in the place of an answer, or of a chunk of one.
pub(super) fn is_error(event: &Json) -> bool {
    let Json::Object(object) = event else { return false };
    let is = |key: &str, word: &str| event.text(key).is_some_and(|text| text == word);
    object.with("error", |error| error.is_some_and(|error| !error.is_empty()))
        || is("object", "error")
        || is("type", "error")
        || (object.contains("detail") && !object.contains("choices"))
}

/// An error status, as a number or a text of one.
fn error_status(value: &Json) -> Option<u16> {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    ERRORS.contains(&number).then(|| u16::try_from(number).ok()).flatten()
}

/// The shape of a body by its beginning, where the service does not say it.
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

/// The shape of an answer's body: the one that the service names, else the one that its beginning shows.
pub(super) async fn shape_of(response: &mut Response) -> Result<Shape, Error> {
    Ok(match &*response.media_type() {
        "text/event-stream" => Shape::Events,
        kind if kind == "application/json" || kind.ends_with("+json") => Shape::Json,
        "" | "text/plain" | "application/octet-stream" => guess(&response.peek().await?),
        _ => Shape::Other,
    })
}

/// The shape of a body.
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
    fn errors_are_known_in_all_their_shapes() {
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
    fn a_status_inside_the_error_is_used_when_it_is_one() {
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
    fn a_body_is_known_by_its_beginning() {
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
