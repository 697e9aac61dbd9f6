//! A turn as the bytes of a streamed answer.

use super::endpoint::{Chunk, Encoder};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{TurnEvent, TurnStream};
use valvehouse_json::Json;

/// The bytes of a turn, in the words of its endpoint.
pub(super) struct AnswerBytes<E> {
    first: Option<TurnEvent>,
    answer: TurnStream<'static>,
    /// None once the end is being written.
    encoder: Option<E>,
    end: Option<BoxFuture<'static, Bytes>>,
}

impl<E: Encoder> AnswerBytes<E> {
    pub(super) fn new(first: Option<TurnEvent>, answer: TurnStream<'static>, encoder: E) -> Self {
        Self { first, answer, encoder: Some(encoder), end: None }
    }

    fn finish(&mut self, end: Result<Json, Error>) {
        if let Err(fault) = &end {
            tracing::warn!("a stream ended with an error: {fault}");
            if let Some(trace) = self.answer.turn().trace() {
                trace.fail(&fault.to_string());
            }
        }
        self.end = self.encoder.take().map(|encoder| encoder.encode_end(end));
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
            let event = match this.first.take() {
                Some(first) => Some(Ok(first)),
                None => match this.answer.poll_event(context) {
                    Poll::Ready(event) => event,
                    Poll::Pending => return Poll::Pending,
                },
            };
            let chunk = match event {
                Some(Ok(TurnEvent::Piece(piece))) => Chunk::Piece(piece),
                Some(Ok(TurnEvent::Emitted(event))) => Chunk::Emitted(event),
                Some(Ok(TurnEvent::Answer(answer))) => {
                    this.finish(Ok(answer.reply));
                    continue;
                }
                Some(Err(fault)) => {
                    this.finish(Err(fault));
                    continue;
                }
                // The bytes of a service come first, or not at all.
                Some(Ok(TurnEvent::Passthrough(_))) => continue,
                None => return Poll::Ready(None),
            };
            let bytes = encoder.encode_chunk(chunk);
            if !bytes.is_empty() {
                return Poll::Ready(Some(bytes));
            }
        }
    }
}
