//! Server-sent events as OpenAI writes them.

use crate::reply;
use crate::turn::events::encoded;
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

/// An event that a plugin emitted, in the stream.
pub(super) fn emitted(event: &Json) -> Bytes {
    let envelope = Json::from([("event", event.clone())]);
    self::event(&Piece::new(envelope))
}

/// A failure in the middle of a stream.
pub(super) fn error(fault: &Fault) -> Bytes {
    event(&Piece::new(reply::body(fault)))
}

/// A failure in the middle of a stream, and the stream's end.
pub(super) fn failed(fault: &Fault) -> Bytes {
    [&error(fault)[..], DONE].concat().into()
}
