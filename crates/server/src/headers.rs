//! The headers of this host, in requests and responses.

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

/// Escapes non-ASCII characters in JSON, because a header must be ASCII.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for unit in json.chars() {
        if unit.is_ascii() {
            out.push(unit);
        } else {
            let mut units = [0; 2];
            unit.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}
