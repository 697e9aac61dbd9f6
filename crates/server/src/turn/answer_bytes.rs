//! A turn as the bytes of a streamed answer.

use super::endpoint::{Chunk, Encoder};
use super::streaming::{Item, Streaming};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The bytes of a turn, in the words of its endpoint.
pub(super) struct AnswerBytes<E> {
    first: Option<Item>,
    streaming: Streaming,
    /// None once the end is being written.
    encoder: Option<E>,
    end: Option<BoxFuture<'static, Bytes>>,
}

impl<E: Encoder> AnswerBytes<E> {
    pub(super) fn new(first: Option<Item>, streaming: Streaming, encoder: E) -> Self {
        Self { first, streaming, encoder: Some(encoder), end: None }
    }
}

impl<E: Encoder> Stream for AnswerBytes<E> {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        loop {
            if let Some(end) = &mut this.end {
                let Poll::Ready(bytes) = end.as_mut().poll(context) else { return Poll::Pending };
                this.end = None;
                return Poll::Ready((!bytes.is_empty()).then_some(bytes));
            }
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            let item = match this.first.take() {
                Some(first) => Some(first),
                None => match this.streaming.poll_next(context) {
                    Poll::Ready(item) => item,
                    Poll::Pending => return Poll::Pending,
                },
            };
            let chunk = match item {
                Some(Item::Piece(piece)) => Chunk::Piece(piece),
                Some(Item::Emitted(event)) => Chunk::Emitted(event),
                // The bytes of a service come first, or not at all.
                Some(Item::Raw(_)) => continue,
                Some(Item::Failed(fault)) => {
                    tracing::warn!("a stream ended with an error: {fault}");
                    this.end = this.encoder.take().map(|encoder| encoder.encode_end(Err(fault)));
                    continue;
                }
                None => {
                    let answer = this.streaming.answer().unwrap_or_default();
                    this.end = this.encoder.take().map(|encoder| encoder.encode_end(Ok(answer)));
                    continue;
                }
            };
            let bytes = encoder.encode_chunk(chunk);
            if !bytes.is_empty() {
                return Poll::Ready(Some(bytes));
            }
        }
    }
}
