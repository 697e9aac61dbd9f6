//! Relays the bytes of a provider's answer unchanged, and appends an error if it ends early.
//!
//! Encodes server-sent events in OpenAI's format.

use crate::headers::{is_displayed, of_text, sandbox};
use crate::reply;
use crate::turn::events::encoded;
use crate::turn::keep_alive::{End, KeepAlive};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{PassthroughAnswer, PassthroughBody, StreamChunk};
use valvehouse_core::trace::Trace;
use valvehouse_json::Json;
use valvehouse_net::MAX_BODY;
use valvehouse_net::sse::{self, MAX_LINE, Parser, SseEvent, TooLong};

/// The number of last bytes of a stream that are examined to tell a proper end from an interruption.
const TAIL: usize = 8 * 1024;

/// Relays a successful answer. A comment is sent after `keep_alive_ms` milliseconds of silence in a stream. A
/// failure is recorded in the trace.
pub(crate) async fn relay(
    forwarded: PassthroughAnswer,
    keep_alive_ms: u64,
    trace: Option<Arc<Trace>>,
) -> Result<Response, Error> {
    let is_stream =
        forwarded.content_type.as_deref().is_some_and(|kind| kind.starts_with("text/event-stream"));
    let body = match forwarded.body {
        PassthroughBody::Whole(bytes) => Body::from(bytes),
        PassthroughBody::Stream(body) if is_stream => {
            let relay = Relay {
                provider: forwarded.provider,
                body,
                tail: BytesMut::new(),
                held: BytesMut::new(),
                trace,
            };
            let relayed = stream::unfold(Some(relay), |relay| async { relay?.next().await });
            let relayed = KeepAlive::new(relayed.boxed(), keep_alive_ms);
            Body::from_stream(relayed.map(Ok::<_, std::convert::Infallible>))
        }
        // The answer is read completely first, so that an interruption is reported by the status.
        PassthroughBody::Stream(body) => Body::from(whole(body).await?),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(forwarded.status).unwrap_or(StatusCode::OK);
    let is_harmless = forwarded.content_type.as_deref().is_some_and(is_displayed);
    if let Some(kind) = forwarded.content_type.and_then(|kind| of_text(&kind)) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    if !is_harmless {
        sandbox(response.headers_mut());
    }
    if is_stream {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    Ok(response)
}

async fn whole(mut body: BoxStream<'static, Result<Bytes, Error>>) -> Result<Bytes, Error> {
    let mut all = BytesMut::new();
    while let Some(bytes) = body.next().await {
        all.extend_from_slice(&bytes?);
        if all.len() > MAX_BODY {
            let message = format!("a response exceeded its limit of {} MiB", MAX_BODY >> 20);
            return Err(Error::Provider { message: message.into(), timeout: false });
        }
    }
    Ok(all.freeze())
}

/// Relays complete lines at once. An incomplete line waits for its end, so that the client never receives a
/// part of an event.
struct Relay {
    provider: Arc<str>,
    body: BoxStream<'static, Result<Bytes, Error>>,
    /// The last complete lines, at least [`TAIL`] bytes if there are as many.
    tail: BytesMut,
    held: BytesMut,
    trace: Option<Arc<Trace>>,
}

impl Relay {
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        loop {
            match self.body.next().await {
                Some(Ok(bytes)) => {
                    if let Some(lines) = self.lines(bytes) {
                        self.remember(&lines);
                        return Some((lines, Some(self)));
                    }
                    if self.held.len() > MAX_LINE {
                        self.held.clear();
                        let error = self.interrupted(&TooLong::Line.to_string());
                        return self.end(Some(&error)).map(|bytes| (bytes, None));
                    }
                }
                Some(Err(error)) => return self.end(Some(&error)).map(|bytes| (bytes, None)),
                None => return self.end(None).map(|bytes| (bytes, None)),
            }
        }
    }

    fn lines(&mut self, mut bytes: Bytes) -> Option<Bytes> {
        let Some(end) = bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.held.extend_from_slice(&bytes);
            return None;
        };
        let rest = bytes.split_off(end + 1);
        if !self.held.is_empty() {
            self.held.extend_from_slice(&bytes);
            bytes = self.held.split().freeze();
        }
        self.held.extend_from_slice(&rest);
        Some(bytes)
    }

    fn remember(&mut self, lines: &[u8]) {
        self.tail.extend_from_slice(lines);
        if self.tail.len() >= 2 * TAIL {
            let older = &self.tail[..self.tail.len() - TAIL];
            if let Some(end) = older.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                // The rest is copied, because a split buffer would keep the memory of both parts.
                self.tail = BytesMut::from(&self.tail[end + 1..]);
            }
        }
    }

    fn interrupted(&self, why: &str) -> Error {
        let message = format!("the response of provider {} ended early: {why}", self.provider);
        Error::Provider { message: message.into(), timeout: false }
    }

    /// Returns the bytes that the stream lacks at its end.
    fn end(mut self, error: Option<&Error>) -> Option<Bytes> {
        let mut out = BytesMut::new();
        if is_event(&self.held) {
            // Only the end of the line is missing.
            self.held.extend_from_slice(b"\n\n");
            out.extend_from_slice(&self.held);
            self.tail.extend_from_slice(&self.held);
            self.held.clear();
        }
        let mut end = End::default();
        end.follow(&self.tail);
        let ended = StreamEnd::of(&self.tail);
        if ended != StreamEnd::Done && !end.is_between_events() {
            // An incomplete event is closed first.
            out.extend_from_slice(b"\n");
        }
        match ended {
            StreamEnd::Done => {}
            StreamEnd::Properly => out.extend_from_slice(DONE),
            StreamEnd::Not => {
                let cut = self.interrupted("the stream ended without a finish_reason and without [DONE]");
                let error = error.unwrap_or(&cut);
                tracing::warn!("a stream ended with an error: {error}");
                if let Some(trace) = &self.trace {
                    trace.fail(&error.to_string());
                }
                out.extend_from_slice(&failed(error));
            }
        }
        (!out.is_empty()).then(|| out.freeze())
    }
}

/// Returns `true` if a line is a complete event.
fn is_event(line: &[u8]) -> bool {
    let Some(data) = line.strip_prefix(b"data:") else { return false };
    data.trim_ascii() == b"[DONE]" || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}

/// The end of a stream, determined from its last events.
#[derive(Debug, PartialEq, Eq)]
enum StreamEnd {
    /// The end marker was received, so nothing is appended.
    Done,
    /// An error was received, or a finish reason for each choice.
    Properly,
    /// The stream was interrupted.
    Not,
}

impl StreamEnd {
    fn of(tail: &[u8]) -> Self {
        let mut parser = Parser::default();
        parser.push(tail);
        parser.finish();
        let events: Vec<SseEvent> = parser.flatten().collect();
        // Most streams end with the marker, so the events need no parsing.
        if events.iter().any(|event| event.data.trim_ascii() == b"[DONE]") {
            return Self::Done;
        }
        let mut choices = BTreeMap::new();
        let mut error = false;
        for event in events {
            let Ok(json) = serde_json::from_slice::<serde_json::Value>(&event.data) else { continue };
            if is_end_elsewhere(&json) {
                return Self::Done;
            }
            error |= is_error(&event, &json);
            for (place, choice) in json["choices"].as_array().into_iter().flatten().enumerate() {
                let index = choice["index"].as_u64().unwrap_or(place as u64);
                let ends = choice["finish_reason"].as_str().is_some_and(|why| !why.is_empty());
                *choices.entry(index).or_insert(false) |= ends;
            }
        }
        let all_ended = !choices.is_empty() && choices.values().all(|ended| *ended);
        if error || all_ended { Self::Properly } else { Self::Not }
    }
}

fn is_error(event: &SseEvent, json: &serde_json::Value) -> bool {
    event.name.as_deref() == Some("error") || json.get("error").is_some_and(|error| !error.is_null())
}

/// Returns `true` for the last event of another API's stream, which has no `[DONE]`.
fn is_end_elsewhere(json: &serde_json::Value) -> bool {
    let ends = ["message_stop", "response.completed", "response.incomplete", "response.failed"];
    json["type"].as_str().is_some_and(|kind| ends.contains(&kind))
}

/// The end marker of every stream.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

/// Encodes one event. An unchanged event is sent as received.
pub(crate) fn event(chunk: &StreamChunk) -> Bytes {
    let mut out = BytesMut::with_capacity(chunk.raw.len() + 32);
    let name = chunk.name.as_deref();
    if chunk.raw.is_empty() {
        sse::write(&mut out, name, &encoded(&chunk.event));
    } else {
        sse::write(&mut out, name, &chunk.raw);
    }
    out.freeze()
}

/// Encodes an event that a plugin emitted.
pub(crate) fn emitted(event: &Json) -> Bytes {
    let envelope = Json::from([("event", event.clone())]);
    self::event(&StreamChunk::new(envelope))
}

/// Encodes an error during a stream.
pub(super) fn error_event(error: &Error) -> Bytes {
    event(&StreamChunk::new(reply::body(error)))
}

/// Encodes an error during a stream, and the end marker.
pub(crate) fn failed(error: &Error) -> Bytes {
    [&error_event(error)[..], DONE].concat().into()
}
