//! The headers of this host, in requests and responses.

use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use valvehouse_core::context::EmittedEvent;
use valvehouse_core::error::Error;
use valvehouse_host::Snapshot;

/// The header with the generation that produced a response.
pub(crate) const GENERATION: HeaderName = HeaderName::from_static("x-valvehouse-generation");
/// The header with the id of a conversation.
pub(crate) const CHAT: HeaderName = HeaderName::from_static("x-valvehouse-chat-id");
/// The header with the `provider/model` that answered, if a model has fallbacks.
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-valvehouse-model");
/// The header with which a client requests the events of plugins. In a response, it contains events.
pub(crate) const EVENTS: HeaderName = HeaderName::from_static("x-valvehouse-events");
/// The maximum length of the events in a header, in bytes.
const EVENTS_LENGTH: usize = 8 * 1024;
/// The maximum length of a text that a client or a service chose, in bytes.
const TEXT_LENGTH: usize = 2_000;
/// The header with the id of the trace. The value `content` in a request enables the recording of values.
pub(crate) const TRACE: HeaderName = HeaderName::from_static("x-valvehouse-trace");
/// The header with the caller's trace, as defined by W3C Trace Context.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with the CSRF token of the page, for requests that change something.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("x-valvehouse-csrf");

/// Returns a response with the generation in its header.
pub(crate) async fn named(
    snapshot: &Snapshot,
    answer: impl Future<Output = Result<Response, Error>>,
    refused: impl FnOnce(Error) -> Response,
) -> Response {
    let mut response = answer.await.unwrap_or_else(refused);
    response.headers_mut().insert(GENERATION, HeaderValue::from(snapshot.generation));
    response
}

/// The content security policy of a service's response: in a browser, it has an origin of its own and loads
/// nothing.
const SANDBOX: &str = "sandbox; default-src 'none'";

/// The media types of services that a browser only displays, beside images, sound and video.
const DISPLAYED: [&str; 9] = [
    "application/json",
    "application/jsonl",
    "application/octet-stream",
    "application/x-ndjson",
    "text/csv",
    "text/event-stream",
    "text/markdown",
    "text/plain",
    "text/vtt",
];

/// Removes the rights of the host's page from a response whose content comes from a service. A browser saves it
/// as a file if it could run it.
pub(crate) fn sandbox(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let is_saved = only(headers, &CONTENT_DISPOSITION)
        .is_some_and(|value| word(value).eq_ignore_ascii_case("attachment"));
    if !is_saved && !only(headers, &CONTENT_TYPE).is_some_and(is_displayed) {
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    }
}

/// Returns `true` if a browser only displays content of this media type.
pub(crate) fn is_displayed(content_type: &str) -> bool {
    let kind = word(content_type);
    if DISPLAYED.iter().any(|displayed| displayed.eq_ignore_ascii_case(kind)) {
        return true;
    }
    let Some((group, kind)) = kind.split_once('/') else { return false };
    ["audio", "image", "video"].iter().any(|media| media.eq_ignore_ascii_case(group))
        && !kind.contains(['+', ','])
        && !kind.eq_ignore_ascii_case("svg")
}

/// Returns the value of a header that occurs once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok()
}

/// Returns a header's value without its parameters.
fn word(value: &str) -> &str {
    value.split(';').next().unwrap_or("").trim()
}

/// Returns `true` if a client requests the events of plugins.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    headers.get(&EVENTS).is_some_and(|value| value == "1")
}

/// The entry that stands for the events beyond the limit.
const CUT: &str = r#"{"type":"cut"}"#;

pub(crate) fn events_header(events: &[EmittedEvent]) -> Option<HeaderValue> {
    if events.is_empty() {
        return None;
    }
    let (mut text, mut ends) = (String::from("["), Vec::new());
    for event in events {
        // The list can be cut before each event.
        ends.push(text.len());
        text.push_str(if ends.len() > 1 { "," } else { "" });
        text.push_str(&ascii(&event.0.to_string()));
        if text.len() >= EVENTS_LENGTH {
            let fits = |end: &usize| *end + CUT.len() + 2 <= EVENTS_LENGTH;
            let end = ends.into_iter().rev().find(fits).unwrap_or(1);
            text.truncate(end);
            text.push_str(if end > 1 { "," } else { "" });
            text.push_str(CUT);
            break;
        }
    }
    text.push(']');
    HeaderValue::from_str(&text).ok()
}

/// Returns a text that a client or a service chose as the value of a header: escaped, and cut if it is too long.
pub(crate) fn of_text(text: &str) -> Option<HeaderValue> {
    let mut own = ascii(&text[..text.floor_char_boundary(TEXT_LENGTH)]);
    if own.len() > TEXT_LENGTH || own.len() < text.len() {
        own.truncate(TEXT_LENGTH - 3);
        own.push_str("...");
    }
    HeaderValue::from_str(&own).ok()
}

/// Escapes all but visible ASCII characters, spaces and tabs as in JSON, because a header has no others.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for unit in text.chars() {
        if unit == '\t' || unit.is_ascii() && !unit.is_ascii_control() {
            out.push(unit);
        } else {
            let mut units = [0; 2];
            unit.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_a_browser_could_run_is_saved_as_a_file() {
        for (kinds, disposition, expected) in [
            (&["application/json"][..], None, None),
            (&["text/plain; charset=utf-8"], None, None),
            (&["Image/PNG"], Some("inline"), Some("inline")),
            (&["audio/mpeg"], Some("attachment; filename=\"a.mp3\""), Some("attachment; filename=\"a.mp3\"")),
            (&["text/html"], None, Some("attachment")),
            (&["text/html"], Some("inline; filename=attachment"), Some("attachment")),
            (&["text/html"], Some("Attachment ; filename=x"), Some("Attachment ; filename=x")),
            (&["TEXT/HTML;charset=utf-8"], Some("attachments"), Some("attachment")),
            (&["application/xhtml+xml"], None, Some("attachment")),
            (&["image/svg+xml"], None, Some("attachment")),
            (&["image/svg"], None, Some("attachment")),
            (&["image/png,text/html"], None, Some("attachment")),
            (&["text/xml"], None, Some("attachment")),
            (&["application/pdf"], None, Some("attachment")),
            (&["text/plain", "text/html"], None, Some("attachment")),
            (&[""], None, Some("attachment")),
            (&[], None, Some("attachment")),
        ] {
            let mut headers = HeaderMap::new();
            for kind in kinds {
                headers.append(CONTENT_TYPE, HeaderValue::from_static(kind));
            }
            if let Some(disposition) = disposition {
                headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
            }
            sandbox(&mut headers);
            let disposition = headers.get(CONTENT_DISPOSITION).map(|value| value.to_str().unwrap());
            assert_eq!(disposition, expected, "{kinds:?}");
            assert_eq!(headers[CONTENT_SECURITY_POLICY], SANDBOX);
            assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }
}
