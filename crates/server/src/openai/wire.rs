//! Server-sent events as OpenAI writes them.

use crate::reply;
use bytes::{Bytes, BytesMut};
use valvehouse_core::fault::Fault;
use valvehouse_core::provider::Piece;
use valvehouse_json::Json;
use valvehouse_net::sse;

/// The end of every stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

/// One event. What nobody changed goes out as it came in.
pub(super) fn event(piece: &Piece) -> Bytes {
    let mut out = BytesMut::with_capacity(piece.raw.len() + 32);
    let name = piece.name.as_deref();
    if piece.raw.is_empty() {
        sse::write(&mut out, name, &encoded(&piece.event));
    } else {
        sse::write(&mut out, name, &piece.raw);
    }
    out.freeze()
}

/// What a plugin emitted, in the stream.
pub(super) fn emitted(event: &Json) -> Bytes {
    let envelope = Json::from([("event", event.clone())]);
    self::event(&Piece::new(envelope))
}

/// A failure in the middle of a stream, and the stream's end.
pub(super) fn failed(fault: &Fault) -> Bytes {
    let mut out = BytesMut::from(&event(&Piece::new(reply::body(fault)))[..]);
    out.extend_from_slice(DONE);
    out.freeze()
}

/// One event of a name.
pub(crate) fn named_event(name: &str, value: &Json) -> Bytes {
    let mut out = BytesMut::new();
    sse::write(&mut out, Some(name), &encoded(value));
    out.freeze()
}

fn encoded(event: &Json) -> Vec<u8> {
    event.encode().unwrap_or_else(|error| {
        tracing::error!("an event could not be written: {error}");
        b"{}".to_vec()
    })
}
