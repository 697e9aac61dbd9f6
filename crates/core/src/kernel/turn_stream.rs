//! A turn in progress, as a stream of its events.

use crate::chat::{ChatChunk, event, message, response};
use crate::context::{Context, EmittedEvents, EndOfTurn, Turn};
use crate::error::Error;
use crate::provider::{PassthroughAnswer, StreamChunk};
use futures_util::future::BoxFuture;
use futures_util::stream::Stream;
use std::fmt;
use std::pin::Pin;
use std::task::{self, Poll};
use tokio::sync::mpsc::Receiver;
use valvehouse_json::Json;

/// An item of a turn's stream. The last one is `Answer` or `Passthrough`.
pub enum TurnEvent {
    /// An event of the answer after all filters, in streamed turns only.
    Chunk(StreamChunk),
    /// An event that a plugin emitted: `{type, data}`, with `id` if it awaits an answer.
    Emitted(Json),
    /// The complete answer, at the end of the turn.
    Answer(TurnAnswer),
    /// The provider's bytes instead of all other events, if [`super::RunOptions::passthrough`] allows it.
    Passthrough(PassthroughAnswer),
}

impl TurnEvent {
    /// Returns the text that the event adds to the answer, "" for events without text.
    pub fn text(&self) -> String {
        match self {
            Self::Chunk(chunk) => event::text(&chunk.event).into(),
            _ => String::new(),
        }
    }
}

/// The answer of a turn.
#[derive(Debug, Clone)]
pub struct TurnAnswer {
    /// The answer of the last model call, a `chat.completion` with the usage of the entire turn.
    pub response: Json,
    /// The answer for the client, with the texts of all model calls of the turn.
    pub reply: Json,
    /// The messages of the conversation, the answer last.
    pub messages: Vec<Json>,
    /// The variables after the turn.
    pub context: Context,
}

impl TurnAnswer {
    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        message::text_of(&response::message_of(&self.response)).into()
    }

    /// Returns the token counts of the whole turn, `prompt_tokens completion_tokens total_tokens`; null if the
    /// service does not report them.
    pub fn usage(&self) -> Json {
        self.response.field("usage")
    }

    /// Returns the reason why the answer ended, such as `stop`.
    pub fn finish_reason(&self) -> Option<String> {
        response::finish_reason_of(&self.response).map(String::from)
    }
}

/// Writes the text of the answer.
impl fmt::Display for TurnAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The last item of a turn's stream.
pub enum TurnEnd {
    /// The complete answer.
    Answer(TurnAnswer),
    /// The provider's bytes, unchanged.
    Passthrough(PassthroughAnswer),
}

impl From<TurnEnd> for TurnEvent {
    fn from(end: TurnEnd) -> Self {
        match end {
            TurnEnd::Answer(answer) => Self::Answer(answer),
            TurnEnd::Passthrough(forwarded) => Self::Passthrough(forwarded),
        }
    }
}

/// A turn in progress. It runs while the stream is polled and is canceled when the stream is dropped.
///
/// The stream yields the events of the turn, followed by its answer or its error.
pub struct TurnStream<'a> {
    // This field is dropped first, so that canceled work can detect the end of the turn.
    over: Option<EndOfTurn>,
    work: Option<BoxFuture<'a, Result<TurnEnd, Error>>>,
    chunks: Option<Receiver<StreamChunk>>,
    emitted: Option<EmittedEvents>,
    /// The number of chunks that were taken.
    taken: usize,
    ended: Option<Result<TurnEnd, Error>>,
    turn: Turn,
}

impl<'a> TurnStream<'a> {
    pub(super) fn new(
        turn: Turn,
        work: BoxFuture<'a, Result<TurnEnd, Error>>,
        chunks: Option<Receiver<StreamChunk>>,
        emitted: Option<EmittedEvents>,
    ) -> Self {
        Self {
            over: Some(turn.until_dropped()),
            work: Some(work),
            chunks,
            emitted,
            taken: 0,
            ended: None,
            turn,
        }
    }

    /// Returns the turn, with its variables, emitted events and exchange.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Returns the model that answered, `provider/model`, if there were several candidates.
    pub fn served_by(&self) -> Option<String> {
        self.turn.exchange().served_by()
    }

    /// Returns the next event; `None` after the last one.
    ///
    /// # Errors
    /// Returns the error of the turn as its last event.
    pub async fn next(&mut self) -> Option<Result<TurnEvent, Error>> {
        std::future::poll_fn(|context| self.poll_event(context)).await
    }

    /// Reads the stream to its end and returns the last item.
    ///
    /// # Errors
    /// Returns the error of the turn.
    pub async fn end(mut self) -> Result<TurnEnd, Error> {
        while let Some(event) = self.next().await {
            match event? {
                TurnEvent::Answer(answer) => return Ok(TurnEnd::Answer(answer)),
                TurnEvent::Passthrough(forwarded) => return Ok(TurnEnd::Passthrough(forwarded)),
                TurnEvent::Chunk(_) | TurnEvent::Emitted(_) => {}
            }
        }
        Err(Error::Host("the turn has ended already".into()))
    }

    /// Reads the stream of a turn without [`super::RunOptions::passthrough`] to its end and returns its answer.
    ///
    /// # Errors
    /// Returns the error of the turn.
    pub async fn answer(self) -> Result<TurnAnswer, Error> {
        match self.end().await? {
            TurnEnd::Answer(answer) => Ok(answer),
            TurnEnd::Passthrough(_) => Err(Error::Host(
                "cannot return the answer: it was passed through as bytes; call `end` instead".into(),
            )),
        }
    }

    /// Converts the stream to one of the model's chunks after all filters.
    pub fn chunks(self) -> ChatChunks<'a> {
        ChatChunks { stream: self, answer: None }
    }

    /// Polls for the next event.
    pub fn poll_event(&mut self, context: &mut task::Context<'_>) -> Poll<Option<Result<TurnEvent, Error>>> {
        loop {
            // Available events are taken without polling the runtime, whose cooperative budget could delay
            // events that only this task can take.
            if let Some(event) = self.take_ready() {
                return Poll::Ready(Some(Ok(event)));
            }
            let Some(work) = &mut self.work else {
                return Poll::Ready(self.ended.take().map(|ended| ended.map(TurnEvent::from)));
            };
            let Poll::Ready(ended) = work.as_mut().poll(context) else {
                return match self.take_ready() {
                    Some(event) => Poll::Ready(Some(Ok(event))),
                    None => self.wait_for_emitted(context),
                };
            };
            (self.over, self.work, self.ended) = (None, None, Some(ended));
        }
    }

    fn take_ready(&mut self) -> Option<TurnEvent> {
        if let Some(event) = self.emitted.as_mut().and_then(|emitted| emitted.take_after(self.taken)) {
            return Some(TurnEvent::Emitted(event));
        }
        if let Some(chunk) = self.chunks.as_mut().and_then(|chunks| chunks.try_recv().ok()) {
            self.taken += 1;
            return Some(TurnEvent::Chunk(chunk));
        }
        self.emitted.as_mut()?.take_ready().map(TurnEvent::Emitted)
    }

    /// Polls for plugin events, which other threads can emit; model events come from the turn polled here.
    fn wait_for_emitted(
        &mut self,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<TurnEvent, Error>>> {
        match self.emitted.as_mut().map(|emitted| emitted.poll_next(context)) {
            Some(Poll::Ready(Some(event))) => Poll::Ready(Some(Ok(TurnEvent::Emitted(event)))),
            _ => Poll::Pending,
        }
    }
}

impl Stream for TurnStream<'_> {
    type Item = Result<TurnEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context)
    }
}

/// The chunks of a turn's answer, a `Stream` of `Result<ChatChunk, Error>`. The turn runs while the stream is polled
/// and is canceled when the stream is dropped.
#[derive(Debug)]
pub struct ChatChunks<'a> {
    stream: TurnStream<'a>,
    answer: Option<TurnAnswer>,
}

impl ChatChunks<'_> {
    /// Returns the next chunk; `None` at the end.
    ///
    /// # Errors
    /// Returns the error of the turn as its last item.
    pub async fn next(&mut self) -> Option<Result<ChatChunk, Error>> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Returns the complete answer, once the stream is read to its end.
    pub fn answer(&self) -> Option<&TurnAnswer> {
        self.answer.as_ref()
    }

    fn poll_chunk(&mut self, context: &mut task::Context<'_>) -> Poll<Option<Result<ChatChunk, Error>>> {
        loop {
            match task::ready!(self.stream.poll_event(context)) {
                Some(Ok(TurnEvent::Chunk(chunk))) => {
                    return Poll::Ready(Some(Ok(ChatChunk::new(chunk.event))));
                }
                Some(Ok(TurnEvent::Answer(answer))) => self.answer = Some(answer),
                Some(Ok(TurnEvent::Emitted(_) | TurnEvent::Passthrough(_))) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for ChatChunks<'_> {
    type Item = Result<ChatChunk, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(context)
    }
}

impl fmt::Debug for TurnStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("turn", &self.turn).finish_non_exhaustive()
    }
}
