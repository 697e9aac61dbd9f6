//! The contract of endpoints. A chat protocol is one file that implements two traits: [`Endpoint`] converts
//! its requests to chats, and [`Encoder`] writes complete or streamed answers.
//!
//! [`RunSlot`] contains the run of an agent's turn.

use super::emitted_event::RenderedText;
use super::events::EVENT_STREAM;
use super::keep_alive::COMMENT;
use crate::body::parsed_within;
use crate::facts;
use crate::headers::{CHAT, of_text, wants_events};
use axum::http::HeaderName;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::{Arc, OnceLock};
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::{Context, EmittedEvent, HeldMemory, TurnFacts};
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
    /// The snapshot for the whole turn, including a streamed answer.
    pub(crate) snapshot: &'a Snapshot,
    /// The head of the request.
    pub(crate) parts: &'a Parts,
    /// The run that the turn starts, if its model is an agent.
    pub(crate) run: RunSlot,
    /// The memory that the request and its answers hold.
    pub(crate) memory: Arc<HeldMemory>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(app: &'a Arc<App>, snapshot: &'a Snapshot, parts: &'a Parts) -> Self {
        let memory = Arc::new(app.memory.share());
        Self { app, snapshot, parts, run: RunSlot::default(), memory }
    }

    /// Parses the body of the request.
    ///
    /// # Errors
    /// Returns a request error if the body is not valid JSON or has too many values, and an error if the requests of
    /// the host hold too much memory.
    pub(crate) fn parse(&self, bytes: &Bytes) -> Result<Json, Error> {
        parsed_within(bytes, &self.memory)
    }

    /// Lets the stored items of a conversation count toward the memory of the request.
    ///
    /// # Errors
    /// Returns an error if the requests of the host hold too much memory.
    pub(crate) fn count(&self, items: &[Json]) -> Result<(), Error> {
        /// The number of copies: the items, and the messages made of them.
        const COPIES: usize = 2;
        self.memory.grow(COPIES * items.iter().map(Json::size_estimate).sum::<usize>())
    }
}

/// A protocol whose requests are converted to chats.
pub(crate) trait Endpoint: Sync {
    /// The name of the endpoint in metrics and traces.
    const NAME: &'static str;

    /// The type that writes the answers.
    type Encoder: Encoder;

    /// Converts a request to a chat, and creates the encoder of its answer.
    ///
    /// # Errors
    /// Returns a request error that names the invalid part.
    fn decode(
        &self,
        call: &Call<'_>,
        bytes: &Bytes,
    ) -> impl Future<Output = Result<(ChatRequest, Self::Encoder), Error>> + Send;

    /// Returns the model of a chat with its filters and tools.
    ///
    /// # Errors
    /// Returns a request error if the model or a filter that the request names is unknown.
    fn ready(&self, call: &Call<'_>, chat: &ChatRequest) -> Result<Ready, Error> {
        call.snapshot.ready_for(&chat.model(), &facts::requested_filters(chat.body())?, chat.body())
    }

    /// Returns the variables and the metadata at the start of the turn.
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

    /// Passes facts about the model to the encoder, and the settings that a chat cannot express to the
    /// provider.
    fn prepare(
        &self,
        call: &Call<'_>,
        chat: &ChatRequest,
        known: (&Ready, &TurnFacts),
        encoder: &mut Self::Encoder,
    ) {
        let _ = (call, chat, known, encoder);
    }

    /// Returns the events that plugins emitted in earlier requests of the turn. They start its stream.
    fn earlier_events(&self, call: &Call<'_>, chat: &ChatRequest) -> Vec<EmittedEvent> {
        let _ = (call, chat);
        Vec::new()
    }

    /// Returns `true` if a streaming client accepts the events that plugins emit.
    fn takes_events(&self, call: &Call<'_>, chat: &ChatRequest) -> bool {
        let headers = &call.parts.headers;
        wants_events(headers) || facts::is_open_webui(headers, chat.body())
    }
}

/// A part of a streamed answer.
pub(crate) enum Chunk {
    /// An event from the model.
    Model(StreamChunk),
    /// An event that a plugin emitted.
    Emitted(Json),
}

/// Writes the answer to one request.
pub(crate) trait Encoder: Send + Unpin + Sized + 'static {
    /// Set if the bytes of a provider with OpenAI's chat API are a valid answer in this protocol.
    const TAKES_RAW: bool = false;

    /// The bytes that are sent between events after a long silence; empty if the protocol has no keep-alive.
    const KEEP_ALIVE: &'static [u8] = COMMENT;

    /// The media type of a streamed answer.
    const STREAM_TYPE: &'static str = EVENT_STREAM;

    /// Encodes a complete answer.
    ///
    /// # Errors
    /// Returns an error if this protocol cannot express the answer.
    fn encode(self, answer: Json) -> impl Future<Output = Result<Json, Error>> + Send;

    /// Prepares the encoder. It is called when the first part of a streamed answer has arrived.
    fn before_first(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Encodes a part of a streamed answer. The result is empty if there is nothing to send yet.
    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes;

    /// Receives the places of text for events of plugins, before the answer is written or ended. An encoder that
    /// stores the answer stores it without this text.
    fn exclude(&mut self, rendered: RenderedText) {
        drop(rendered);
    }

    /// Encodes the end of a streamed answer: the complete answer, or the error that interrupted it.
    fn encode_end(self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes>;

    /// Encodes an error before anything was sent, with its status.
    fn encode_error(error: Error) -> Response;
}

/// The header with the id of an agent's run.
const RUN: HeaderName = HeaderName::from_static("x-valvehouse-run");

/// The run of a turn, which is set when the run starts. Clones share the value.
#[derive(Clone, Default)]
pub(crate) struct RunSlot(Arc<OnceLock<Run>>);

impl RunSlot {
    /// Returns a callback that stores the run when it starts.
    pub(crate) fn on_begin(&self) -> impl FnOnce(&Run) + Send + 'static {
        let slot = self.0.clone();
        // A turn starts at most one run.
        move |run| drop(slot.set(run.clone()))
    }

    /// Returns the run, if the turn has started one.
    pub(crate) fn get(&self) -> Option<&Run> {
        self.0.get()
    }

    /// Adds the ids of the run and of its conversation to the headers of a response.
    pub(crate) fn name(&self, response: &mut Response) {
        let Some(run) = self.0.get() else { return };
        for (name, value) in [(RUN, &run.id), (CHAT, &run.conversation)] {
            // An id that is unfit for a header was sent in a body, so the client knows it.
            if let Some(header) = of_text(value).filter(|header| header == value) {
                response.headers_mut().insert(name, header);
            }
        }
    }
}
