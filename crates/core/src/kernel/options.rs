//! The options of a turn, and its conversion to a stream.

use super::progress::Journal;
use super::turn_stream::{TurnEnd, TurnStream};
use crate::context::{EmittedEvents, Turn};
use crate::error::Error;
use crate::provider::StreamChunk;
use tokio::sync::mpsc::{self, Sender};

/// The number of model events that are buffered for a slow reader before the model call waits.
const AHEAD: usize = 32;

/// The options of a turn.
pub struct RunOptions<'a> {
    pub(super) turn: Turn,
    is_streamed: bool,
    /// The channel for the model's events if another stream delivers them.
    pub(super) sender: Option<Sender<StreamChunk>>,
    emitted: Option<EmittedEvents>,
    pub(super) takes_bytes: bool,
    pub(super) leaves_calls: bool,
    pub(super) calls_last: bool,
    pub(super) max_model_calls: Option<usize>,
    pub(super) journal: Option<&'a dyn Journal>,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self::new(Turn::default())
    }
}

impl<'a> RunOptions<'a> {
    /// Creates the options of a turn whose answer is not streamed and whose tool calls are run.
    pub fn new(turn: Turn) -> Self {
        Self {
            turn,
            is_streamed: false,
            sender: None,
            emitted: None,
            takes_bytes: false,
            leaves_calls: false,
            calls_last: false,
            max_model_calls: None,
            journal: None,
        }
    }

    /// Sets whether the model's events are streamed.
    #[must_use]
    pub fn streamed(self, is_streamed: bool) -> Self {
        Self { is_streamed, ..self }
    }

    /// Sets whether the stream may consist of the provider's original bytes if no filter, tool or observer
    /// needs the answer.
    #[must_use]
    pub fn passthrough(self, takes_bytes: bool) -> Self {
        Self { takes_bytes, ..self }
    }

    /// Adds the events that plugins emit to the stream.
    #[must_use]
    pub fn emitted(self, emitted: impl Into<Option<EmittedEvents>>) -> Self {
        Self { emitted: emitted.into(), ..self }
    }

    /// Sets whether a stream has its tool calls after all text, also after text that filters append at its end, because
    /// some clients of chats read no text after calls.
    #[must_use]
    pub fn calls_last(self, calls_last: bool) -> Self {
        Self { calls_last, ..self }
    }

    /// Leaves the tool calls in the answer to the caller.
    #[must_use]
    pub fn leaving_tool_calls(self) -> Self {
        Self { leaves_calls: true, ..self }
    }

    /// Sets the maximum number of model calls; the default is the kernel's setting.
    #[must_use]
    pub fn max_model_calls(self, max: impl Into<Option<usize>>) -> Self {
        Self { max_model_calls: max.into(), ..self }
    }

    /// Sets the journal that stores the turn after each step.
    #[must_use]
    pub fn journal(self, journal: &'a dyn Journal) -> Self {
        Self { journal: Some(journal), ..self }
    }

    /// Sends the model's events to the stream that this turn belongs to; see [`RunOptions::stream`].
    #[must_use]
    pub fn sending(self, sender: impl Into<Option<Sender<StreamChunk>>>) -> Self {
        Self { sender: sender.into(), ..self }
    }

    /// Changes the turn, for example by adding an observer.
    #[must_use]
    pub fn with_turn(self, change: impl FnOnce(Turn) -> Turn) -> Self {
        Self { turn: change(self.turn), ..self }
    }

    /// Returns the turn.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Takes the channel for the model's events, for the work of [`RunOptions::stream`].
    pub fn take_sender(&mut self) -> Option<Sender<StreamChunk>> {
        self.sender.take()
    }

    /// Returns a stream over work that runs the turn with these options, possibly among other work. The work
    /// runs while the stream is polled and is canceled when the stream is dropped.
    pub fn stream<F>(mut self, work: impl FnOnce(Self) -> F) -> TurnStream<'a>
    where
        F: Future<Output = Result<TurnEnd, Error>> + Send + 'a,
    {
        let mut chunks = None;
        if self.is_streamed && self.sender.is_none() {
            let (sender, receiver) = mpsc::channel(AHEAD);
            (self.sender, chunks) = (Some(sender), Some(receiver));
        }
        let (turn, emitted) = (self.turn.clone(), self.emitted.take());
        TurnStream::new(turn, Box::pin(work(self)), chunks, emitted)
    }
}
