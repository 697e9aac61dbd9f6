//! A turn whose answer is streamed: the turn and its client in one task.

use super::keep_alive::KeepAlive;
use super::wire;
use crate::headers::wants_events;
use crate::{auth, facts, reply};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt};
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use valvehouse_core::context::{Context, Event, Events, Turn, TurnFacts};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_core::provider::{Forwarded, Piece};
use valvehouse_core::trace::Trace;
use valvehouse_host::Ready;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_store::Run;

/// Names the run of an agent.
const RUN: HeaderName = HeaderName::from_static("x-valvehouse-run");
/// Names its conversation.
const CHAT: HeaderName = HeaderName::from_static("x-valvehouse-chat-id");
/// Pieces that may wait for a slow client before the model's stream waits too.
const AHEAD: usize = 32;

/// The run that a turn is, where it is one.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<OnceLock<Run>>);

impl Told {
    /// Hears of the run when it begins.
    pub(crate) fn hears(&self) -> impl FnOnce(&Run) + Send + 'static {
        let told = self.0.clone();
        move |run| drop(told.set(run.clone()))
    }

    /// It.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.0.get()
    }

    /// Names it, and its conversation, in an answer.
    pub(crate) fn name(&self, response: &mut Response) {
        let Some(run) = self.0.get() else { return };
        for (name, value) in [(RUN, &run.id), (CHAT, &run.conversation)] {
            // An id that fits no header came in a body; its client knows it.
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
    }
}

/// What a streaming turn gives, in the order it gives it.
pub(crate) enum Item {
    Piece(Piece),
    Emitted(Json),
    Raw(Forwarded),
    Failed(Fault),
}

/// A turn and its client in one task: the turn runs while the client reads, and ends when the
/// client goes away.
pub(crate) struct Streaming {
    work: Option<BoxFuture<'static, Result<Reply, Fault>>>,
    pieces: mpsc::Receiver<Piece>,
    emitted: mpsc::UnboundedReceiver<Json>,
    failed: Option<Fault>,
    told: Told,
    trace: Option<Arc<Trace>>,
}

impl Streaming {
    /// Begins a turn, and waits for the first that comes of it: until then there is a status to tell the
    /// truth with. Raw bytes are no use to a door that speaks otherwise, nor where what is emitted has its
    /// place between pieces.
    pub(crate) async fn begin(
        app: &Arc<App>,
        ready: Ready,
        body: Json,
        facts: TurnFacts,
        context: Context,
        headers: &HeaderMap,
        raw: bool,
    ) -> Result<(Option<Item>, Self), Fault> {
        let events = wants_events(headers) || facts::is_open_webui(headers, &body);
        let raw = raw && !events;
        // A client whose whole answer is waited for hears after a while that it is still being served.
        let keep_alive = Duration::from_millis(app.config.server.keep_alive_ms);
        let patience = (ready.kernel.settings().hold && !keep_alive.is_zero()).then_some(keep_alive);
        let told = Told::default();
        let (host, hears, trace) = (app.clone(), told.hears(), facts.trace.clone());
        let work = |events, sender| async move {
            let turn = Turn::new(facts, context, events);
            host.turn(&ready, body, &turn, Wish { stream: Some(sender), raw }, hears).await
        };
        let mut streaming = Self { trace, ..Self::new(app, headers, events, told, work) };
        let first = streaming.first(patience).await?;
        Ok((first, streaming))
    }

    /// The same for any work on a turn that emits, to a client that wants to see it, and streams.
    pub(crate) async fn of<W>(
        app: &App,
        headers: &HeaderMap,
        wants_events: bool,
        told: Told,
        work: impl FnOnce(Events, mpsc::Sender<Piece>) -> W,
    ) -> Result<(Option<Item>, Self), Fault>
    where
        W: Future<Output = Result<Reply, Fault>> + Send + 'static,
    {
        let mut streaming = Self::new(app, headers, wants_events, told, work);
        let first = streaming.first(None).await?;
        Ok((first, streaming))
    }

    fn new<W>(
        app: &App,
        headers: &HeaderMap,
        wants_events: bool,
        told: Told,
        work: impl FnOnce(Events, mpsc::Sender<Piece>) -> W,
    ) -> Self
    where
        W: Future<Output = Result<Reply, Fault>> + Send + 'static,
    {
        let (sender, pieces) = mpsc::channel(AHEAD);
        let (emitter, emitted) = mpsc::unbounded_channel();
        let events = if wants_events {
            let send = move |event: &Event| drop(emitter.send(event.0.clone()));
            Events::listening(send, Some(app.questions.of(&auth::asker(app, headers))))
        } else {
            Events::default()
        };
        let work = Box::pin(work(events, sender));
        Self { work: Some(work), pieces, emitted, failed: None, told, trace: None }
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

    /// The answer, as OpenAI's clients read it; `last` comes before the end of the stream.
    pub(crate) fn respond(
        mut self,
        first: Option<Item>,
        keep_alive_ms: u64,
        last: impl Future<Output = Bytes> + Send + 'static,
    ) -> Response {
        let mut response = Response::default();
        self.name(&mut response);
        let rest = stream::poll_fn(move |context| self.poll_next(context));
        let items = stream::iter(first).chain(rest);
        let bytes = items
            .map(|item| match item {
                Item::Piece(piece) => wire::event(&piece),
                Item::Emitted(event) => wire::emitted(&event),
                Item::Failed(fault) => {
                    tracing::warn!("a stream ended with an error: {fault}");
                    // Its own end follows: see below.
                    wire::event(&Piece::new(reply::body(&fault)))
                }
                Item::Raw(_) => Bytes::new(),
            })
            .chain(stream::once(Box::pin(last)))
            .filter(|bytes| std::future::ready(!bytes.is_empty()))
            .chain(stream::once(std::future::ready(Bytes::from_static(wire::DONE))));
        as_events(&mut response, KeepAlive::new(bytes, keep_alive_ms));
        response
    }

    /// Names the run in an answer that is about to begin.
    pub(crate) fn name(&self, response: &mut Response) {
        self.told.name(response);
    }

    pub(crate) fn poll_next(&mut self, context: &mut TaskContext<'_>) -> Poll<Option<Item>> {
        loop {
            // What is there is taken without asking the runtime: its turn-taking would say "later"
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
                Ok(Reply::Answer(_)) => {}
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

/// Makes an answer one of server-sent events.
pub(crate) fn as_events(response: &mut Response, bytes: impl Stream<Item = Bytes> + Send + 'static) {
    *response.body_mut() = Body::from_stream(bytes.map(Ok::<_, Infallible>));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}
