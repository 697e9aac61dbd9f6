//! The stream of bytes in which an endpoint sends the answer of a turn.

use super::emitted_event::{EventText, for_open_webui};
use super::endpoint::{Chunk, Encoder};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{TurnEvent, TurnStream};
use valvehouse_json::Json;

/// The form in which a client receives the events that plugins emit.
#[expect(
    clippy::large_enum_variant,
    reason = "an answer has one, which is rarely moved; a box is an allocation"
)]
pub(crate) enum EventForm {
    /// As emitted, for a client that accepts events.
    Own,
    /// In the form of Open WebUI.
    OpenWebUi,
    /// As text of the answer.
    Text(EventText),
}

/// The answer of a turn in the format of its endpoint.
pub(super) struct AnswerBytes<E> {
    /// The events that came before the answer was begun.
    first: VecDeque<TurnEvent>,
    answer: TurnStream<'static>,
    form: EventForm,
    /// `None` while the end is being written.
    encoder: Option<E>,
    end: Option<BoxFuture<'static, Bytes>>,
}

impl<E: Encoder> AnswerBytes<E> {
    pub(super) fn new(
        first: VecDeque<TurnEvent>,
        answer: TurnStream<'static>,
        form: EventForm,
        encoder: E,
    ) -> Self {
        Self { first, answer, form, encoder: Some(encoder), end: None }
    }

    fn finish(&mut self, end: Result<Json, Error>) {
        if let Err(error) = &end {
            tracing::warn!("a stream ended with an error: {error}");
            if let Some(trace) = self.answer.turn().trace() {
                trace.fail(&error.to_string());
            }
        }
        if let (EventForm::Text(text), Some(encoder)) = (&mut self.form, &mut self.encoder) {
            encoder.exclude(text.take_rendered());
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
            let event = match this.first.pop_front() {
                Some(first) => Some(Ok(first)),
                None => std::task::ready!(this.answer.poll_event(context)),
            };
            let bytes = match event {
                Some(Ok(TurnEvent::Chunk(chunk))) => match &mut this.form {
                    EventForm::Text(text) => {
                        let chunks = text.chunks(chunk).into_iter();
                        let written = chunks.map(|chunk| encoder.encode_chunk(Chunk::Model(chunk)));
                        written.collect::<Vec<_>>().concat().into()
                    }
                    EventForm::Own | EventForm::OpenWebUi => encoder.encode_chunk(Chunk::Model(chunk)),
                },
                Some(Ok(TurnEvent::Emitted(event))) => match &mut this.form {
                    EventForm::Own => encoder.encode_chunk(Chunk::Emitted(event)),
                    EventForm::OpenWebUi => encoder.encode_chunk(Chunk::Emitted(for_open_webui(event))),
                    EventForm::Text(text) => match text.chunk_of(&event) {
                        Some(chunk) => encoder.encode_chunk(Chunk::Model(chunk)),
                        None => continue,
                    },
                },
                Some(Ok(TurnEvent::Answer(answer))) => {
                    this.finish(Ok(answer.reply));
                    continue;
                }
                Some(Err(error)) => {
                    this.finish(Err(error));
                    continue;
                }
                // A passthrough answer is the first event, and is relayed instead.
                Some(Ok(TurnEvent::Passthrough(_))) => continue,
                None => return Poll::Ready(None),
            };
            if !bytes.is_empty() {
                return Poll::Ready(Some(bytes));
            }
        }
    }
}
