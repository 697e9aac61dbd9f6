//! Responses of server-sent events.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::stream::{Stream, StreamExt};
use std::convert::Infallible;
use valvehouse_json::Json;
use valvehouse_net::sse;

/// The media type of server-sent events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

/// Makes a response a stream of server-sent events.
pub(crate) fn as_events(response: &mut Response, bytes: impl Stream<Item = Bytes> + Send + 'static) {
    as_stream(response, EVENT_STREAM, bytes);
}

/// Makes a response a stream of this media type.
pub(crate) fn as_stream(
    response: &mut Response,
    kind: &'static str,
    bytes: impl Stream<Item = Bytes> + Send + 'static,
) {
    *response.body_mut() = Body::from_stream(bytes.map(Ok::<_, Infallible>));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}

/// Encodes one event with a name.
pub(crate) fn named_event(name: &str, value: &Json) -> Bytes {
    let mut out = BytesMut::new();
    sse::write(&mut out, Some(name), &encoded(value));
    out.freeze()
}

/// Encodes events, each named by its `type`.
pub(crate) fn typed_events(events: &[Json]) -> Bytes {
    let mut out = BytesMut::new();
    for event in events {
        sse::write(&mut out, Some(&event.text_or_empty("type")), &encoded(event));
    }
    out.freeze()
}

/// Encodes the data of an event. If that fails, the error is logged and the data is an empty object.
pub(crate) fn encoded(event: &Json) -> Vec<u8> {
    event.encode().unwrap_or_else(|error| {
        tracing::error!("cannot write an event: {error}");
        b"{}".to_vec()
    })
}
