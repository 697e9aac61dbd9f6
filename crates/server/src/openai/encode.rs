//! Answers as OpenAI's chats have them.

use super::wire;
use crate::reply::OpenAiError;
use crate::turn::endpoint::{Chunk, Encoder};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use valvehouse_core::fault::Fault;
use valvehouse_json::Json;

/// Writes a `chat.completion`, or its chunks.
pub(crate) struct Completion;

impl Encoder for Completion {
    const TAKES_RAW: bool = true;

    async fn encode(self, answer: Json) -> Result<Json, Fault> {
        Ok(answer)
    }

    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes {
        encode_chunk(&chunk)
    }

    fn encode_end(self, end: Result<Json, Fault>) -> BoxFuture<'static, Bytes> {
        Box::pin(ready(match end {
            Ok(_) => Bytes::from_static(wire::DONE),
            Err(fault) => wire::failed(&fault),
        }))
    }

    fn encode_error(fault: Fault) -> Response {
        OpenAiError(fault).into_response()
    }
}

/// A part of a stream, as its event.
pub(crate) fn encode_chunk(chunk: &Chunk) -> Bytes {
    match chunk {
        Chunk::Piece(piece) => wire::event(piece),
        Chunk::Emitted(event) => wire::emitted(event),
    }
}

/// The end of a stream, with an error where it broke off, and `last` before the word for it.
pub(crate) fn encode_end(failure: Option<&Fault>, last: &[u8]) -> Bytes {
    let Some(failure) = failure else { return [last, wire::DONE].concat().into() };
    [&wire::error(failure)[..], last, wire::DONE].concat().into()
}
