//! A provider's answer, byte for byte; only a failure adds to it.

use super::wire;
use crate::fault::Fault;
use crate::llm::Forwarded;
use crate::net::MAX_BODY;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::VecDeque;

/// As much of a stream is looked at when it is over, to tell a proper end from a cut.
const TAIL: usize = 16 * 1024;

/// Passes a successful answer on.
pub(super) async fn relay(forwarded: Forwarded) -> Result<Response, Fault> {
    let is_stream =
        forwarded.content_type.as_deref().is_some_and(|kind| kind.starts_with("text/event-stream"));
    let body = if is_stream {
        let relay = Relay {
            provider: forwarded.provider,
            body: forwarded.body,
            tail: VecDeque::new(),
            held: BytesMut::new(),
        };
        let relayed = stream::unfold(Some(relay), |relay| async { relay?.next().await });
        Body::from_stream(relayed.map(Ok::<_, std::convert::Infallible>))
    } else {
        // Whole before it begins: one that breaks off is then told by its status.
        Body::from(whole(forwarded.body).await?)
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(forwarded.status).unwrap_or(StatusCode::OK);
    if let Some(kind) = forwarded.content_type.and_then(|kind| HeaderValue::from_str(&kind).ok()) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    if is_stream {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    Ok(response)
}

async fn whole(mut body: BoxStream<'static, Result<Bytes, Fault>>) -> Result<Bytes, Fault> {
    let mut all = BytesMut::new();
    while let Some(bytes) = body.next().await {
        all.extend_from_slice(&bytes?);
        if all.len() > MAX_BODY {
            let message = format!("an answer is larger than {} MiB", MAX_BODY >> 20);
            return Err(Fault::Provider { message, timeout: false });
        }
    }
    Ok(all.freeze())
}

/// Whole lines go on at once. The rest of a line waits for its end, so that a cut within an event
/// never reaches the client as half an event.
struct Relay {
    provider: String,
    body: BoxStream<'static, Result<Bytes, Fault>>,
    tail: VecDeque<Bytes>,
    held: BytesMut,
}

impl Relay {
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        loop {
            match self.body.next().await {
                Some(Ok(bytes)) => {
                    if let Some(lines) = self.lines(bytes) {
                        self.remember(lines.clone());
                        return Some((lines, Some(self)));
                    }
                }
                Some(Err(fault)) => return self.end(Some(&fault)).map(|bytes| (bytes, None)),
                None => return self.end(None).map(|bytes| (bytes, None)),
            }
        }
    }

    fn lines(&mut self, mut bytes: Bytes) -> Option<Bytes> {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
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

    fn remember(&mut self, lines: Bytes) {
        self.tail.push_back(lines);
        let mut size: usize = self.tail.iter().map(Bytes::len).sum();
        while let Some(first) = self.tail.front()
            && size - first.len() >= TAIL
        {
            size -= first.len();
            self.tail.pop_front();
        }
    }

    /// What the stream still lacks when its bytes are over.
    fn end(mut self, fault: Option<&Fault>) -> Option<Bytes> {
        let mut tail = Vec::from(self.tail).concat();
        let mut out = BytesMut::new();
        if Event::of(&self.held).is_some() {
            // Only its line's end is missing.
            self.held.extend_from_slice(b"\n\n");
            out.extend_from_slice(&self.held);
            tail.extend_from_slice(&self.held);
        }
        let events: Vec<Event> = tail.split(|byte| *byte == b'\n').filter_map(Event::of).collect();
        if !events.contains(&Event::Done) {
            // An event whose frame is still open is closed first.
            if !tail.is_empty() && !tail.ends_with(b"\n\n") && !tail.ends_with(b"\n\r\n") {
                out.extend_from_slice(b"\n");
            }
            if events.contains(&Event::Finish) || events.contains(&Event::Error) {
                out.extend_from_slice(wire::DONE);
            } else {
                let cut = Fault::Provider {
                    message: format!(
                        "the answer of provider {} broke off: the stream ended without a finish_reason and \
                         without [DONE]",
                        self.provider
                    ),
                    timeout: false,
                };
                let fault = fault.unwrap_or(&cut);
                tracing::warn!("a stream ended with an error: {fault}");
                out.extend_from_slice(&wire::failed(fault));
            }
        }
        (!out.is_empty()).then(|| out.freeze())
    }
}

/// What matters of an event at the end of a stream.
#[derive(PartialEq, Eq)]
enum Event {
    Done,
    Finish,
    Error,
    Other,
}

impl Event {
    /// A line's event; none where it is no event or not all of one.
    fn of(line: &[u8]) -> Option<Self> {
        let data = line.strip_prefix(b"data:")?.trim_ascii();
        if data == b"[DONE]" {
            return Some(Self::Done);
        }
        let event: serde_json::Value = serde_json::from_slice(data).ok()?;
        if event.get("error").is_some_and(|error| !error.is_null()) {
            return Some(Self::Error);
        }
        let mut choices = event["choices"].as_array().into_iter().flatten();
        let ends = choices.any(|choice| choice["finish_reason"].as_str().is_some_and(|why| !why.is_empty()));
        Some(if ends { Self::Finish } else { Self::Other })
    }
}
