//! A turn whose answer is streamed: the turn and its client in one task.

use crate::auth;
use axum::http::HeaderMap;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use valvehouse_core::context::{Event, Events};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::Reply;
use valvehouse_core::provider::{Forwarded, Piece};
use valvehouse_core::trace::Trace;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Pieces that may wait for a slow client before the model's stream waits too.
const AHEAD: usize = 32;

/// The items of a streaming turn, in the order in which they come.
pub(super) enum Item {
    Piece(Piece),
    Emitted(Json),
    Raw(Forwarded),
    Failed(Fault),
}

/// A turn and its client in one task: the turn runs while the client reads, and ends when the
/// client goes away.
pub(super) struct Streaming {
    work: Option<BoxFuture<'static, Result<Reply, Fault>>>,
    pieces: mpsc::Receiver<Piece>,
    emitted: mpsc::UnboundedReceiver<Json>,
    failed: Option<Fault>,
    answer: Option<Json>,
    trace: Option<Arc<Trace>>,
}

impl Streaming {
    /// Begins a turn, and waits for the first that comes of it, for so long: until then there is a status to tell the
    /// truth with. With a caller, what plugins emit is part of the stream, and their questions can be answered.
    pub(super) async fn begin<W>(
        caller: Option<(&App, &HeaderMap)>,
        patience: Option<Duration>,
        trace: Option<Arc<Trace>>,
        work: impl FnOnce(Events, mpsc::Sender<Piece>) -> W,
    ) -> Result<(Option<Item>, Self), Fault>
    where
        W: Future<Output = Result<Reply, Fault>> + Send + 'static,
    {
        let (sender, pieces) = mpsc::channel(AHEAD);
        let (emitter, emitted) = mpsc::unbounded_channel();
        let events = match caller {
            Some((app, headers)) => {
                let send = move |event: &Event| drop(emitter.send(event.0.clone()));
                Events::listening(send, Some(app.questions.of(&auth::asker(app, headers))))
            }
            None => Events::default(),
        };
        let work = Box::pin(work(events, sender));
        let mut streaming = Self { work: Some(work), pieces, emitted, failed: None, answer: None, trace };
        let first = streaming.first(patience).await?;
        Ok((first, streaming))
    }

    /// The answer as a whole, once the turn is over.
    pub(super) fn answer(&mut self) -> Option<Json> {
        self.answer.take()
    }

    /// The first that comes of it; nothing where it takes longer than this.
    async fn first(&mut self, patience: Option<Duration>) -> Result<Option<Item>, Fault> {
        let first = std::future::poll_fn(|context| self.poll_next(context));
        let first = match patience {
            Some(patience) => tokio::time::timeout(patience, first).await.unwrap_or(None),
            None => first.await,
        };
        match first {
            Some(Item::Failed(fault)) => Err(fault),
            first => Ok(first),
        }
    }

    pub(super) fn poll_next(&mut self, context: &mut TaskContext<'_>) -> Poll<Option<Item>> {
        loop {
            // Pieces at hand are taken without asking the runtime: its turn-taking would say "later"
            // of pieces that only this task can take.
            if let Some(item) = self.take_ready() {
                return Poll::Ready(Some(item));
            }
            let Some(work) = &mut self.work else {
                return Poll::Ready(self.failed.take().map(Item::Failed));
            };
            let Poll::Ready(reply) = work.as_mut().poll(context) else {
                return match self.take_ready() {
                    Some(item) => Poll::Ready(Some(item)),
                    None => self.wait_for_events(context),
                };
            };
            self.work = None;
            match reply {
                Ok(Reply::Raw(forwarded)) => return Poll::Ready(Some(Item::Raw(forwarded))),
                Ok(Reply::Answer(answer)) => self.answer = Some(answer),
                Err(fault) => {
                    if let Some(trace) = &self.trace {
                        trace.fail(&fault.to_string());
                    }
                    self.failed = Some(fault);
                }
            }
        }
    }

    fn take_ready(&mut self) -> Option<Item> {
        if let Ok(event) = self.emitted.try_recv() {
            return Some(Item::Emitted(event));
        }
        self.pieces.try_recv().ok().map(Item::Piece)
    }

    /// Pieces come from the turn, which is polled here; events also from scripts on other threads.
    fn wait_for_events(&mut self, context: &mut TaskContext<'_>) -> Poll<Option<Item>> {
        match self.emitted.poll_recv(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(Item::Emitted(event))),
            _ => Poll::Pending,
        }
    }
}
