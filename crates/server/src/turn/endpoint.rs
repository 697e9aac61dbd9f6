//! The contract of endpoints. A protocol of chats is one file with these two: how its requests become chats, and how
//! an answer is written, whole or as a stream.
//!
//! The run that a turn is, where its model remembers.

use super::events::EVENT_STREAM;
use super::keep_alive::COMMENT;
use crate::facts;
use crate::headers::wants_events;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::{Arc, OnceLock};
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::{Context, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::provider::StreamChunk;
use valvehouse_host::app::App;
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;
use valvehouse_store::Run;

/// A request at an endpoint.
pub(crate) struct Call<'a> {
    /// The host.
    pub(crate) app: &'a Arc<App>,
    /// The snapshot of the whole turn, a streamed answer to its end.
    pub(crate) snapshot: &'a Snapshot,
    /// The head of the request.
    pub(crate) parts: &'a Parts,
    /// The run that the turn becomes, where its model remembers.
    pub(crate) run: RunSlot,
}

impl<'a> Call<'a> {
    pub(crate) fn new(app: &'a Arc<App>, snapshot: &'a Snapshot, parts: &'a Parts) -> Self {
        Self { app, snapshot, parts, run: RunSlot::default() }
    }
}

/// A protocol: how its requests become chats.
pub(crate) trait Endpoint: Sync {
    /// Its name in metrics and traces.
    const NAME: &'static str;

    /// Writes its answers.
    type Encoder: Encoder;

    /// Reads a request: the chat that it is, and what writes its answer.
    ///
    /// # Errors
    /// Returns a request error that names what cannot be read.
    fn decode(
        &self,
        call: &Call<'_>,
        bytes: &Bytes,
    ) -> impl Future<Output = Result<(ChatRequest, Self::Encoder), Error>> + Send;

    /// The model that a chat is for, with its filters and tools.
    ///
    /// # Errors
    /// Returns a request error if the model or a filter that the request names is unknown.
    fn ready(&self, call: &Call<'_>, chat: &ChatRequest) -> Result<Ready, Error> {
        call.snapshot.ready_for(&chat.model(), &facts::asked_filters(chat.body())?)
    }

    /// The variables and the metadata that the turn begins with.
    fn context(
        &self,
        call: &Call<'_>,
        chat: &ChatRequest,
        ready: &mut Ready,
        facts: &mut TurnFacts,
    ) -> Context {
        let _ = ready;
        facts::context(call.app, facts, chat.body())
    }

    /// Tells the encoder what is known once the model is, and the service what the chat has no words for.
    fn prepare(
        &self,
        call: &Call<'_>,
        chat: &ChatRequest,
        known: (&Ready, &TurnFacts),
        encoder: &mut Self::Encoder,
    ) {
        let _ = (call, chat, known, encoder);
    }

    /// Returns `true` if a client that streams takes what plugins emit.
    fn takes_events(&self, call: &Call<'_>, chat: &ChatRequest) -> bool {
        let headers = &call.parts.headers;
        wants_events(headers) || facts::is_open_webui(headers, chat.body())
    }
}

/// A part of a streamed answer.
pub(crate) enum Chunk {
    /// An event of the model's.
    Model(StreamChunk),
    /// An event that a plugin emitted.
    Emitted(Json),
}

/// Writes the answer to one request.
pub(crate) trait Encoder: Send + Unpin + Sized + 'static {
    /// Set if the bytes of an OpenAI chat service can be passed through as an answer of this protocol.
    const TAKES_RAW: bool = false;

    /// The bytes that go out, between events, when a stream has been silent for long; none where the protocol has none.
    const KEEP_ALIVE: &'static [u8] = COMMENT;

    /// The media type of a streamed answer.
    const STREAM_TYPE: &'static str = EVENT_STREAM;

    /// The whole answer.
    ///
    /// # Errors
    /// Returns an error if this protocol cannot express it.
    fn encode(self, answer: Json) -> impl Future<Output = Result<Json, Error>> + Send;

    /// Waits for the first part of a streamed answer, with its properties.
    fn before_first(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// A part of a streamed answer; no bytes where it is not to be seen yet.
    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes;

    /// The end of a streamed answer: the answer as a whole, or the reason for its interruption.
    fn encode_end(self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes>;

    /// An error before anything was sent, with its status.
    fn encode_error(error: Error) -> Response;
}

/// Names the run of an agent.
const RUN: HeaderName = HeaderName::from_static("x-valvehouse-run");
/// Names its conversation.
const CHAT: HeaderName = HeaderName::from_static("x-valvehouse-chat-id");

/// The run of a turn, known once it has begun. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct RunSlot(Arc<OnceLock<Run>>);

impl RunSlot {
    /// Returns what takes the run when it begins.
    pub(crate) fn on_begin(&self) -> impl FnOnce(&Run) + Send + 'static {
        let slot = self.0.clone();
        // A turn begins one run.
        move |run| drop(slot.set(run.clone()))
    }

    /// The run, where the turn is one.
    pub(crate) fn get(&self) -> Option<&Run> {
        self.0.get()
    }

    /// Names the run and its conversation in an answer.
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
