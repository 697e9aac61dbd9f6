//! The contract of a provider: what it is asked, and what it answers.

use crate::breaker::Open;
use crate::chat::Fold;
use crate::context::Turn;
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

/// A chat request for one model of one service.
#[derive(Debug, Clone)]
pub struct Request {
    /// The body: `model`, `messages` and whatever else the client sent, `stream` set as asked.
    pub body: Json,
    /// Whether the answer shall come in pieces.
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

/// What a service answers.
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
}

impl Piece {
    /// A piece that never was on a wire.
    pub fn new(event: Json) -> Self {
        Self { raw: Bytes::new(), event, name: None }
    }
}

/// An answer passed on as it is, byte for byte. What is no success is a fault instead.
pub struct Forwarded {
    /// The provider's configured name.
    pub provider: Arc<str>,
    /// The status, 200 to 299.
    pub status: u16,
    /// `content-type` as the service named it.
    pub content_type: Option<String>,
    /// The body.
    pub body: Passed,
}

/// Bytes that are passed on.
pub enum Passed {
    /// All of them.
    Whole(Bytes),
    /// As they come.
    Stream(BoxStream<'static, Result<Bytes, Fault>>),
}

impl Passed {
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
    fn forward(&self, body: Bytes, stream: bool) -> Option<BoxFuture<'_, Result<Forwarded, Fault>>> {
        let _ = (body, stream);
        None
    }

    /// Whether it knows this `response_format`; where it does not, the model has to be told in words.
    fn takes_response_format(&self, format: &Json) -> bool {
        let _ = format;
        true
    }

    /// How it stands, where it failed again and again and is left alone.
    fn rests(&self) -> Option<Open> {
        None
    }

    /// What its calls came to, where somebody counts them.
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
