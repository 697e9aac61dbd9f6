//! The origin of an answer, as named in errors, and the conversion of services' errors.

use bytes::Bytes;
use std::sync::Arc;
use valvehouse_core::error::{Error, Explanation};
use valvehouse_grants::Secret;
use valvehouse_json::Json;
use valvehouse_net::Response;
use valvehouse_wire::{AnswerError, settled, status_in, unwrapped};

/// The maximum number of bytes that are read of an error's body.
const ERROR_BODY: usize = 256 * 1024;

/// The maximum number of characters of an error that is not JSON.
const ERROR_TEXT: usize = 2000;

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

    /// Returns the error for an unusable response that begins with `start`, which only the log at the level `debug`
    /// contains: filters have not checked it.
    pub(super) fn error_quoting(&self, what: &str, start: &str) -> Error {
        tracing::debug!("provider {} at {} {what}; it begins: {start}", self.provider, self.address);
        self.error(what)
    }

    /// Returns the error for an answer that cannot be read.
    pub(super) fn unreadable(&self, error: AnswerError) -> Error {
        match error {
            AnswerError::Sent(event) => self.in_band(&event),
            AnswerError::Cut(why) => self.cut(&why),
            AnswerError::Call(error) => self.error(&format!("sent {error}")),
            AnswerError::Lacks(key, answer) => {
                let start = self.excerpt(answer.to_string().as_bytes());
                self.error_quoting(&format!("returned a response without `{key}`"), &start)
            }
            AnswerError::Unexpected(what) => self.error(&what),
            _ => self.error("sent an answer that cannot be read"),
        }
    }

    /// Parses one part of a stream, `an event` or `a line`. A damaged part at the end of the stream is
    /// reported as cut off.
    pub(super) fn parse_part(&self, part: &str, bytes: &[u8], is_ended: bool) -> Result<Json, Error> {
        Json::parse_lenient(bytes).map(unwrapped).map_err(|error| match is_ended {
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
        self.answered(status_in(event), self.error_body(event.to_string().as_bytes()), None)
    }

    fn answered(&self, status: u16, body: Json, retry_after: Option<String>) -> Error {
        let status = settled(status, &body);
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

    #[test]
    fn the_key_is_redacted_in_errors() {
        let origin = Origin { provider: "p".into(), address: "http://p".into(), key: Some("sk-1".into()) };
        let event = Json::parse(br#"{"error":{"message":"bad key sk-1","code":"429"}}"#).unwrap();
        match origin.in_band(&event) {
            Error::Answered { status, body, .. } => {
                assert_eq!(status, 429);
                assert!(!body.to_string().contains("sk-1"));
            }
            other => panic!("{other}"),
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
