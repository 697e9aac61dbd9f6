//! `POST /v1/messages`: chats in Anthropic's format.

use super::count;
use super::rejection::{self, AnthropicError};
use crate::first_choice;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::events::typed_events;
use crate::turn::serve::serve;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use std::sync::Arc;
use tokio::task::JoinHandle;
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::TurnFacts;
use valvehouse_core::error::Error;
use valvehouse_host::Ready;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_wire::messages::stream::MessagesWriter;
use valvehouse_wire::messages::{answer, request};

/// Answers a chat request.
pub(crate) async fn messages(State(app): State<Arc<App>>, request: Request) -> Response {
    serve(app, Messages, request).await
}

/// Anthropic's Messages API.
struct Messages;

impl Endpoint for Messages {
    const NAME: &'static str = "messages";
    type Encoder = Message;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Message), Error> {
        let beta = beta(&call.parts.headers);
        let chat = request::read(&call.parse(bytes)?, beta.as_deref())?;
        Ok((ChatRequest::new(chat)?, Message::default()))
    }

    fn prepare(
        &self,
        call: &Call<'_>,
        chat: &ChatRequest,
        (ready, _): (&Ready, &TurnFacts),
        encoder: &mut Message,
    ) {
        if count::has_counter(ready, call.snapshot) {
            return;
        }
        if chat.is_streamed() {
            // Providers with Anthropic's API count the prompt themselves. For others, it is counted during
            // the model call.
            encoder.estimate = Some(tokio::spawn(count::estimate(chat.body().deep_clone())));
        }
    }
}

/// Writes a message, or its events.
#[derive(Default)]
struct Message {
    writer: MessagesWriter,
    /// The estimate of the prompt's tokens, in progress.
    estimate: Option<JoinHandle<Result<usize, Error>>>,
}

impl Encoder for Message {
    const KEEP_ALIVE: &'static [u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";

    async fn before_first(&mut self) {
        if let Some(counting) = self.estimate.take() {
            let counted = counting.await.unwrap_or_else(|error| Err(Error::Host(error.to_string())));
            match counted {
                Ok(tokens) => self.writer = std::mem::take(&mut self.writer).with_estimate(tokens),
                Err(error) => tracing::warn!("cannot count the tokens of a prompt: {error}"),
            }
        }
    }

    async fn encode(self, answer: Json) -> Result<Json, Error> {
        first_choice::check(&answer)?;
        Ok(answer::write(&answer))
    }

    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes {
        typed_events(&match chunk {
            Chunk::Model(chunk) => self.writer.write(&chunk.event),
            Chunk::Emitted(event) => vec![Json::from([("type", "valvehouse".into()), ("event", event)])],
        })
    }

    fn encode_end(self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes> {
        Box::pin(ready(typed_events(&match end {
            Ok(_) if self.writer.lacks_first_choice() => vec![rejection::body(&first_choice::missing())],
            Ok(_) => self.writer.end(),
            Err(error) => vec![rejection::body(&error)],
        })))
    }

    fn encode_error(error: Error) -> Response {
        AnthropicError(error).into_response()
    }
}

/// Returns the values of all `anthropic-beta` headers, joined by commas.
fn beta(headers: &HeaderMap) -> Option<String> {
    let all: Vec<&str> =
        headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok()).collect();
    (!all.is_empty()).then(|| all.join(","))
}
