//! `POST /v1/messages`: the same turn as at every other endpoint, asked for and answered in Anthropic's words.

use super::refusal::{self, AnthropicError};
use crate::body::parsed;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint, with_choice};
use crate::turn::events::typed_events;
use crate::turn::serve::serve;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use std::sync::Arc;
use valvehouse_core::anthropic::{self, Writer};
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::fault::Fault;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// One chat.
pub(crate) async fn messages(State(app): State<Arc<App>>, request: Request) -> Response {
    serve(app, Messages, request).await
}

/// Anthropic's Messages.
struct Messages;

impl Endpoint for Messages {
    const NAME: &'static str = "messages";
    type Encoder = Message;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Message), Fault> {
        let beta = beta(&call.parts.headers);
        let chat = anthropic::read(&parsed(bytes)?, beta.as_deref())?;
        Ok((ChatRequest::new(chat)?, Message::default()))
    }
}

/// Writes a message, or its events.
#[derive(Default)]
struct Message {
    writer: Writer,
}

impl Encoder for Message {
    const KEEP_ALIVE: &'static [u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";

    async fn encode(self, answer: Json) -> Result<Json, Fault> {
        Ok(anthropic::message(&with_choice(answer)?))
    }

    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes {
        typed_events(&match chunk {
            Chunk::Piece(piece) => self.writer.write(&piece.event),
            Chunk::Emitted(event) => vec![Json::from([("type", "valvehouse".into()), ("event", event)])],
        })
    }

    fn encode_end(self, end: Result<Json, Fault>) -> BoxFuture<'static, Bytes> {
        Box::pin(ready(typed_events(&match end {
            Ok(_) => self.writer.end(),
            Err(fault) => vec![refusal::body(&fault)],
        })))
    }

    fn encode_error(fault: Fault) -> Response {
        AnthropicError(fault).into_response()
    }
}

/// All that clients say in `anthropic-beta`, which may come several times.
fn beta(headers: &HeaderMap) -> Option<String> {
    let all: Vec<&str> =
        headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok()).collect();
    (!all.is_empty()).then(|| all.join(","))
}
