//! A turn under way, as the stream of what comes of it.

use crate::chat::{event, message, response};
use crate::context::{Context, EmittedEvents, EndOfTurn, Turn};
use crate::fault::Fault;
use crate::provider::{PassthroughAnswer, Piece};
use futures_util::future::BoxFuture;
use futures_util::stream::Stream;
use std::fmt;
use std::pin::Pin;
use std::task::{self, Poll};
use tokio::sync::mpsc::Receiver;
use valvehouse_json::Json;

/// A part of the stream of a turn. The last one is an `Answer` or `Passthrough`.
pub enum TurnEvent {
    /// An event of the answer, after all filters; of streamed turns only.
    Piece(Piece),
    /// An event that a plugin emitted: `{type, data}`, and `id` where an answer is awaited.
    Emitted(Json),
    /// The end of the turn: the whole answer.
    Answer(TurnAnswer),
    /// The provider's bytes in the place of all other events, where [`super::RunOptions::passthrough`] allows it.
    Passthrough(PassthroughAnswer),
}

impl TurnEvent {
    /// Returns the text that the event adds to the answer; empty for events without text.
    pub fn text(&self) -> String {
        match self {
            Self::Piece(piece) => event::text(&piece.event).into(),
            _ => String::new(),
        }
    }
}

/// The end of a turn.
#[derive(Debug, Clone)]
pub struct TurnAnswer {
    /// The answer of the last model call: a `chat.completion`, with the usage of the whole turn.
    pub response: Json,
    /// The answer as a client reads it, with the texts of all model calls of the turn.
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
}

/// The last part of a turn's stream.
pub enum TurnEnd {
    /// The whole answer.
    Answer(TurnAnswer),
    /// The provider's bytes, untouched.
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

/// A turn under way. It runs while somebody reads, and ends when this is dropped.
///
/// As a stream it yields the events of the turn, then its answer or its fault.
pub struct TurnStream<'a> {
    // Dropped first: whoever is stopped then knows why.
    over: Option<EndOfTurn>,
    work: Option<BoxFuture<'a, Result<TurnEnd, Fault>>>,
    pieces: Option<Receiver<Piece>>,
    emitted: Option<EmittedEvents>,
    ended: Option<Result<TurnEnd, Fault>>,
    turn: Turn,
}

impl<'a> TurnStream<'a> {
    pub(super) fn new(
        turn: Turn,
        work: BoxFuture<'a, Result<TurnEnd, Fault>>,
        pieces: Option<Receiver<Piece>>,
        emitted: Option<EmittedEvents>,
    ) -> Self {
        Self { over: Some(turn.until_dropped()), work: Some(work), pieces, emitted, ended: None, turn }
    }

    /// Returns the turn: its variables, the events that were emitted, and the outer side of its request.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Returns who answered, `provider/model`, where one of several could.
    pub fn served_by(&self) -> Option<String> {
        self.turn.exchange().served_by()
    }

    /// Returns the next event; `None` after the last one.
    ///
    /// # Errors
    /// Returns the fault of the turn as its last event.
    pub async fn next(&mut self) -> Option<Result<TurnEvent, Fault>> {
        std::future::poll_fn(|context| self.poll_event(context)).await
    }

    /// Collects the stream: reads to its end, and returns its last part.
    ///
    /// # Errors
    /// Returns the fault of the turn.
    pub async fn end(mut self) -> Result<TurnEnd, Fault> {
        while let Some(event) = self.next().await {
            match event? {
                TurnEvent::Answer(answer) => return Ok(TurnEnd::Answer(answer)),
                TurnEvent::Passthrough(forwarded) => return Ok(TurnEnd::Passthrough(forwarded)),
                TurnEvent::Piece(_) | TurnEvent::Emitted(_) => {}
            }
        }
        Err(Fault::Host("the turn has ended already".into()))
    }

    /// Collects the stream of a turn without [`super::RunOptions::passthrough`], and returns its answer.
    ///
    /// # Errors
    /// Returns the fault of the turn.
    pub async fn answer(self) -> Result<TurnAnswer, Fault> {
        match self.end().await? {
            TurnEnd::Answer(answer) => Ok(answer),
            TurnEnd::Passthrough(_) => {
                Err(Fault::Host("the answer came as bytes, which the options of the turn allow".into()))
            }
        }
    }

    /// Polls for the next event.
    pub fn poll_event(&mut self, context: &mut task::Context<'_>) -> Poll<Option<Result<TurnEvent, Fault>>> {
        loop {
            // Events at hand are taken without asking the runtime: its turn-taking would say "later"
            // of events that only this task can take.
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
        if let Some(event) = self.emitted.as_mut().and_then(EmittedEvents::take_ready) {
            return Some(TurnEvent::Emitted(event));
        }
        self.pieces.as_mut()?.try_recv().ok().map(TurnEvent::Piece)
    }

    /// Events of the model come from the turn, which is polled here; those of plugins also from other threads.
    fn wait_for_emitted(
        &mut self,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<TurnEvent, Fault>>> {
        match self.emitted.as_mut().map(|emitted| emitted.poll_next(context)) {
            Some(Poll::Ready(Some(event))) => Poll::Ready(Some(Ok(TurnEvent::Emitted(event)))),
            _ => Poll::Pending,
        }
    }
}

impl Stream for TurnStream<'_> {
    type Item = Result<TurnEvent, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context)
    }
}

impl fmt::Debug for TurnStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("turn", &self.turn).finish_non_exhaustive()
    }
}
