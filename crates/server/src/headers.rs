//! The headers of our own, in requests and in answers.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use valvehouse_core::context::EmittedEvent;
use valvehouse_core::error::Error;
use valvehouse_host::Snapshot;

/// The generation that an answer comes from.
pub(crate) const GENERATION: HeaderName = HeaderName::from_static("x-valvehouse-generation");
/// Names who answered, `provider/model`, where a model has fallbacks.
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-valvehouse-model");
/// Clients that want to see what plugins emit say so with this header.
pub(crate) const EVENTS: HeaderName = HeaderName::from_static("x-valvehouse-events");
/// Emitted events in a header are cut here.
const EVENTS_LENGTH: usize = 8 * 1024;
/// Names the trace in an answer; with `content` in a request, values are kept of it.
pub(crate) const TRACE: HeaderName = HeaderName::from_static("x-valvehouse-trace");
/// Names the caller's own trace, by the standard of W3C.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The token of the page, in its requests that change something.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("x-valvehouse-csrf");

/// An answer with the name of the generation that it comes from.
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

/// Stands for the events that did not fit.
const CUT: &str = r#"{"type":"cut"}"#;

pub(crate) fn events_header(events: &[EmittedEvent]) -> Option<HeaderValue> {
    if events.is_empty() {
        return None;
    }
    let (mut text, mut ends) = (String::from("["), Vec::new());
    for event in events {
        // Where the list may be cut.
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

/// JSON in ASCII, as a header has to be.
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
