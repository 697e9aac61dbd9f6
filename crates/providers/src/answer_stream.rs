//! The streamed answer of a service: framing, errors among the events, and an end that comes too early.

use super::framing::{Framing, Lines};
use super::origin::Origin;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::collections::VecDeque;
use std::time::Duration;
use valvehouse_core::error::Error;
use valvehouse_core::provider::StreamChunk;
use valvehouse_net::sse::{Parser, SseEvent};
use valvehouse_wire::{ServiceEvent, StreamReader};

/// The maximum wait for the end of a body after the last event of an answer. A connection is only reused if
/// it was read to its end.
const AFTER_LAST: Duration = Duration::from_millis(100);

/// Converts server-sent events to chunks. An error is the last item.
pub(super) fn chunks<R: StreamReader>(
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    reader: R,
) -> BoxStream<'static, Result<StreamChunk, Error>> {
    read::<Parser, R>(origin, body, reader)
}

/// Converts lines of JSON to chunks. An error is the last item.
pub(super) fn chunks_of_lines<R: StreamReader>(
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    reader: R,
) -> BoxStream<'static, Result<StreamChunk, Error>> {
    read::<Lines, R>(origin, body, reader)
}

fn read<F: Framing, R: StreamReader>(
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    reader: R,
) -> BoxStream<'static, Result<StreamChunk, Error>> {
    let framing = F::default();
    let answer = AnswerStream { origin, body, framing, reader, ready: VecDeque::new(), is_ended: false };
    stream::unfold(Some(answer), |answer| async {
        let mut answer = answer?;
        match answer.next().await? {
            Ok(chunk) => Some((Ok(chunk), Some(answer))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

struct AnswerStream<F, R> {
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    framing: F,
    reader: R,
    ready: VecDeque<StreamChunk>,
    /// Set once the body has ended.
    is_ended: bool,
}

impl<F: Framing, R: StreamReader> AnswerStream<F, R> {
    /// Returns the next chunk; `None` after the last.
    async fn next(&mut self) -> Option<Result<StreamChunk, Error>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            if self.reader.is_over() {
                self.drain().await;
                return self.end();
            }
            match self.framing.next_event() {
                Some(Ok(event)) => {
                    if let Err(error) = self.read(event) {
                        return Some(Err(error));
                    }
                }
                Some(Err(what)) => return Some(Err(self.origin.error(&what))),
                None if self.is_ended => return self.end(),
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.framing.push(&bytes),
                    Some(Err(error)) if self.reader.is_complete() => {
                        tracing::debug!("ignored data after the end of a response: {error}");
                        return None;
                    }
                    Some(Err(error)) => return Some(Err(error)),
                    None => {
                        self.is_ended = true;
                        self.framing.finish();
                    }
                },
            }
        }
    }

    fn read(&mut self, event: SseEvent) -> Result<(), Error> {
        let read = match event.data.trim_ascii() {
            b"" => return Ok(()),
            b"[DONE]" => self.reader.read_done(&mut self.ready),
            _ => {
                let json = self.origin.parse_part(F::EVENT, &event.data, self.is_ended)?;
                let SseEvent { name, data } = event;
                self.reader.read_event(ServiceEvent { name, data, json }, &mut self.ready)
            }
        };
        read.map_err(|error| self.origin.unreadable(error))
    }

    fn end(&self) -> Option<Result<StreamChunk, Error>> {
        self.reader.end().map(|error| Err(self.origin.unreadable(error)))
    }

    /// Reads the rest of the body after the last event.
    async fn drain(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.body.next().await {} };
        // After the timeout, the connection is closed instead of reused.
        let _ = tokio::time::timeout(AFTER_LAST, rest).await;
    }
}
