//! The contract of a provider: requests, answers and the trait.

use crate::breaker::OpenState;
use crate::chat::{ChunkParts, Head, Outline, event};
use crate::context::{Exchange, Header, Turn};
use crate::error::Error;
use crate::metrics::Service;
use bytes::Bytes;
use compact_str::CompactString;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use std::sync::Arc;
use valvehouse_json::Json;

/// The name of the provider for all scripts that serve models.
pub const PIPES: &str = "pipes";

/// The route of providers that use the Responses API.
pub const RESPONSES: &str = "responses";

/// A chat request for one model of a provider.
#[derive(Debug, Clone)]
pub struct Request {
    /// The body: `model`, `messages` and the client's other fields, with `stream` set accordingly.
    pub body: Json,
    /// Set if the answer should be streamed.
    pub stream: bool,
    /// The turn that the request belongs to, for models that are scripts of this host; it is not sent to
    /// services.
    pub turn: Option<Turn>,
}

impl Request {
    /// Creates a request without a turn.
    pub fn new(body: Json, stream: bool) -> Self {
        Self { body, stream, turn: None }
    }
}

/// A chat request whose bytes are passed through without parsing.
#[derive(Debug, Clone)]
pub struct ForwardRequest<'a> {
    /// The body to send.
    pub body: Bytes,
    /// The fields of the body.
    pub outline: &'a Outline<'a>,
    /// Set if the body requests a streamed answer.
    pub stream: bool,
    /// The model named in the body.
    pub model: &'a str,
    /// The headers, the credential and the retries of the request.
    pub exchange: &'a Exchange,
}

/// A request for another route of a provider, whose bytes are passed through without parsing.
pub struct RelayRequest<'a> {
    /// The HTTP method in upper case.
    pub method: &'a str,
    /// The path below the provider's `/v1`, without a leading slash, such as `audio/speech`.
    pub path: &'a str,
    /// The query without its question mark.
    pub query: Option<&'a str>,
    /// The client's `content-type` and `accept` headers.
    pub headers: Vec<Header>,
    /// The body. A streamed body is sent once, without retries.
    pub body: PassthroughBody,
    /// The model named in the request; "" if there is none.
    pub model: &'a str,
    /// The headers, the credential and the retries of the request.
    pub exchange: &'a Exchange,
}

/// The response to a [`RelayRequest`]. An error status is returned as an error.
pub struct RelayResponse {
    /// The HTTP status, 200 to 299.
    pub status: u16,
    /// The headers that describe the body.
    pub headers: Vec<Header>,
    /// The body.
    pub body: PassthroughBody,
}

/// The answer to a chat request.
pub enum Answer {
    /// A complete `chat.completion`.
    Whole(Json),
    /// The chunks as they arrive. An answer that breaks off ends with an error.
    Stream(BoxStream<'static, Result<StreamChunk, Error>>),
}

impl Answer {
    /// Creates a complete answer with this text.
    pub fn text(text: &str) -> Self {
        Self::Whole(Head::new("").text(text))
    }

    /// Creates a streamed answer of these texts, which ends with the finish reason `stop`.
    pub fn texts<T: Into<Json>>(texts: impl Stream<Item = T> + Send + 'static) -> Self {
        let head = Head::new("");
        let last = head.chunk(Json::object(), Some("stop"));
        let events = texts.map(move |text| head.chunk(Json::from([("content", text.into())]), None));
        let events = events.chain(stream::iter([last]));
        Self::Stream(events.map(|event| Ok(StreamChunk::new(event))).boxed())
    }
}

/// An event of a streamed answer.
#[derive(Debug, Clone)]
pub struct StreamChunk {
    /// The event's bytes as received, without SSE framing.
    pub raw: Bytes,
    /// The event as JSON, null if it is not JSON. `[DONE]` is never included.
    pub event: Json,
    /// The SSE event name, if any.
    pub name: Option<CompactString>,
    /// The class of the event, computed on first use.
    parts: Option<ChunkParts>,
}

impl StreamChunk {
    /// Creates an event that was not received from a service.
    pub fn new(event: impl Into<Json>) -> Self {
        Self::received(Bytes::new(), event.into(), None)
    }

    /// Returns the text of the event; "" if it has none.
    pub fn text(&self) -> String {
        event::text(&self.event).into()
    }

    /// Creates an event as received.
    pub fn received(raw: Bytes, event: Json, name: Option<CompactString>) -> Self {
        Self { raw, event, name, parts: None }
    }

    /// Returns the parts of the answer that the event contains. The result is cached until the event changes.
    pub fn parts(&mut self) -> ChunkParts {
        *self.parts.get_or_insert_with(|| ChunkParts::of(&self.event))
    }

    /// Records that the event was changed, which drops its bytes and its cached class.
    pub fn changed(&mut self) {
        self.raw = Bytes::new();
        self.parts = None;
    }
}

/// A response passed through byte for byte. An error status is returned as an error.
pub struct PassthroughAnswer {
    /// The configured name of the provider.
    pub provider: Arc<str>,
    /// The HTTP status, 200 to 299.
    pub status: u16,
    /// The `content-type` header of the response.
    pub content_type: Option<String>,
    /// The body.
    pub body: PassthroughBody,
}

/// A body that is passed through.
pub enum PassthroughBody {
    /// The complete body.
    Whole(Bytes),
    /// The parts of the body as they arrive.
    Stream(BoxStream<'static, Result<Bytes, Error>>),
}

impl PassthroughBody {
    /// Converts the body to a stream; a complete body is one part.
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, Error>> {
        match self {
            Self::Whole(bytes) => stream::iter([Ok(bytes)]).boxed(),
            Self::Stream(bytes) => bytes,
        }
    }
}

/// A provider of models.
pub trait Provider: Send + Sync {
    /// Returns the configured name.
    fn name(&self) -> &str;

    /// Returns the available models as objects with at least an `id`.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be reached or responds with an error.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>>;

    /// Sends a chat request. The provider may return a complete answer to a request for a stream, and the
    /// reverse.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be reached or responds with an error.
    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>>;

    /// Sends a request and returns the response as unchanged bytes, for turns in which no filter needs the
    /// answer. `None` if the provider does not speak the OpenAI API.
    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        let _ = request;
        None
    }

    /// Returns `true` if the provider may have this route besides chats.
    fn has_route(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// Returns `true` if the provider selects one of several providers. Each of them then receives its own
    /// result of [`fit`](super::fit).
    fn chooses(&self) -> bool {
        false
    }

    /// Sends a request for another route and returns the response.
    ///
    /// # Errors
    /// Returns an error if the provider lacks the route, cannot be reached or responds with an error.
    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        let error = Error::Host(format!("provider {} has no {}", self.name(), request.path));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns the states of the open circuit breakers, of which each model can have one, in the order of their causes.
    fn open_breakers(&self) -> Vec<OpenState> {
        Vec::new()
    }

    /// Returns the metrics of the provider's calls, if they are counted.
    fn metrics(&self) -> Option<&Service> {
        None
    }
}

/// A value that builders accept as a provider: any [`Provider`], also in an [`Arc`].
pub trait IntoProvider {
    /// Returns the shared provider.
    fn into_provider(self) -> Arc<dyn Provider>;
}

impl<P: Provider + 'static> IntoProvider for P {
    fn into_provider(self) -> Arc<dyn Provider> {
        Arc::new(self)
    }
}

impl<P: Provider + 'static> IntoProvider for Arc<P> {
    fn into_provider(self) -> Arc<dyn Provider> {
        self
    }
}

impl IntoProvider for Arc<dyn Provider> {
    fn into_provider(self) -> Arc<dyn Provider> {
        self
    }
}
