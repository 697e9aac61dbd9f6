//! The contract of a provider: what it is asked, and what it answers.

use crate::breaker::Open;
use crate::chat::{ChunkParts, Fold};
use crate::context::{Exchange, Header, Turn};
use crate::fault::Fault;
use crate::figures::Service;
use bytes::Bytes;
use compact_str::CompactString;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use std::sync::Arc;
use valvehouse_json::Json;

/// The name of the provider of all scripts that offer models.
pub const PIPES: &str = "pipes";

/// The route of providers that are asked over the Responses API.
pub const RESPONSES: &str = "responses";

/// A chat request for one model of one service.
#[derive(Debug, Clone)]
pub struct Request {
    /// The body: `model`, `messages` and whatever else the client sent, `stream` set as asked.
    pub body: Json,
    /// Asks for a streamed answer.
    pub stream: bool,
    /// The turn that asks, for models that are scripts of this host; no service is told of it.
    pub turn: Option<Turn>,
}

impl Request {
    /// A request of no turn.
    pub fn new(body: Json, stream: bool) -> Self {
        Self { body, stream, turn: None }
    }
}

/// A chat request whose bytes are passed on unread.
#[derive(Debug, Clone)]
pub struct ForwardRequest<'a> {
    /// The body as the service gets it.
    pub body: Bytes,
    /// Set if the body asks for a streamed answer.
    pub stream: bool,
    /// The model that it names.
    pub model: &'a str,
    /// The headers, the credential and the retries of the request.
    pub exchange: &'a Exchange,
}

/// A request of any other route of a service, whose bytes are passed on unread.
pub struct RelayRequest<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// The path below the service's `/v1`, without a slash in front: `audio/speech`.
    pub path: &'a str,
    /// The query, without its question mark.
    pub query: Option<&'a str>,
    /// `content-type` of the body and `accept`, where the client sent them.
    pub headers: Vec<Header>,
    /// The body. One that comes as a stream is sent once.
    pub body: PassthroughBody,
    /// The model that it names; empty where it names none.
    pub model: &'a str,
    /// The headers, the credential and the retries of the request.
    pub exchange: &'a Exchange,
}

/// The answer to a [`RelayRequest`]. What is not a success is a fault instead.
pub struct RelayResponse {
    /// The status, 200 to 299.
    pub status: u16,
    /// The headers that describe the body.
    pub headers: Vec<Header>,
    /// The body.
    pub body: PassthroughBody,
}

/// The answer of a service.
pub enum Answer {
    /// A whole `chat.completion`.
    Whole(Json),
    /// Pieces as they come. The end of the stream is a proper end; a cut is an error.
    Stream(BoxStream<'static, Result<Piece, Fault>>),
}

/// One event of a streamed answer.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The event as it came over the wire, without its framing.
    pub raw: Bytes,
    /// The event, when it is JSON. `[DONE]` never comes as a piece.
    pub event: Json,
    /// The SSE event name, where the service gave one.
    pub name: Option<CompactString>,
    /// The class of the event, once it is known.
    parts: Option<ChunkParts>,
}

impl Piece {
    /// A piece that never was on a wire.
    pub fn new(event: Json) -> Self {
        Self::received(Bytes::new(), event, None)
    }

    /// A piece as it came over the wire.
    pub fn received(raw: Bytes, event: Json, name: Option<CompactString>) -> Self {
        Self { raw, event, name, parts: None }
    }

    /// Returns the parts of the answer that its event has. It is looked at once, until it changes.
    pub fn parts(&mut self) -> ChunkParts {
        *self.parts.get_or_insert_with(|| ChunkParts::of(&self.event))
    }

    /// Records that its event is not the one that came any more: its bytes and its class are dropped.
    pub fn changed(&mut self) {
        self.raw = Bytes::new();
        self.parts = None;
    }
}

/// An answer passed on as it is, byte for byte. What is not a success is a fault instead.
pub struct PassthroughAnswer {
    /// The provider's configured name.
    pub provider: Arc<str>,
    /// The status, 200 to 299.
    pub status: u16,
    /// `content-type` as the service named it.
    pub content_type: Option<String>,
    /// The body.
    pub body: PassthroughBody,
}

/// Bytes that are passed on.
pub enum PassthroughBody {
    /// All of them.
    Whole(Bytes),
    /// As they come.
    Stream(BoxStream<'static, Result<Bytes, Fault>>),
}

impl PassthroughBody {
    /// As if they came; what is whole comes in one piece.
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, Fault>> {
        match self {
            Self::Whole(bytes) => stream::iter([Ok(bytes)]).boxed(),
            Self::Stream(bytes) => bytes,
        }
    }
}

/// One service that serves models.
pub trait Provider: Send + Sync {
    /// Its configured name.
    fn name(&self) -> &str;

    /// The models it has, as `{id, …}`.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>>;

    /// Asks a model. Whether the answer streams is the request's wish and the service's choice.
    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>>;

    /// Passes bytes on and back untouched, for turns in which nobody looks. None where the service
    /// speaks another wire.
    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Fault>>> {
        let _ = request;
        None
    }

    /// Returns `true` if the service may have this route beside chats.
    fn has_route(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// Returns `true` if one of several services answers. Each of them is sent what [`fit`](super::fit) leaves of a
    /// request.
    fn chooses(&self) -> bool {
        false
    }

    /// Passes a request of another route on and its answer back.
    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Fault>> {
        let fault = Fault::Host(format!("provider {} has no {}", self.name(), request.path));
        Box::pin(std::future::ready(Err(fault)))
    }

    /// Returns `true` if it knows this `response_format`; where it does not, the model has to be told in words.
    fn takes_response_format(&self, format: &Json) -> bool {
        let _ = format;
        true
    }

    /// The state of its breaker while it is left alone.
    fn rests(&self) -> Option<Open> {
        None
    }

    /// The metrics of its calls, where somebody counts them.
    fn figures(&self) -> Option<&Service> {
        None
    }
}

/// The answer that pieces are pieces of.
pub async fn whole(mut pieces: BoxStream<'static, Result<Piece, Fault>>) -> Result<Json, Fault> {
    let mut fold = Fold::default();
    while let Some(piece) = pieces.next().await {
        fold.push(&piece?.event);
    }
    Ok(fold.finish())
}
