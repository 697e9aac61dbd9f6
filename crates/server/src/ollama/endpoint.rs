//! The routes of Ollama's API.

use super::embed::{embed, embeddings};
use super::models;
use super::rejection::{OllamaError, body};
use crate::handler::post;
use crate::headers::named;
use crate::reply::json_response;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::serve::{received, refused, serve_turn};
use crate::{facts, first_choice};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use std::sync::Arc;
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_wire::ollama::answer::OllamaWriter;
use valvehouse_wire::ollama::request::{self, OllamaRoute};

/// Returns the routes.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/chat", post(chat))
        .route("/api/generate", post(generate))
        .route("/api/embed", post(embed))
        .route("/api/embeddings", post(embeddings))
        .merge(models::routes())
}

async fn chat(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(app, request, OllamaRoute::Chat).await
}

async fn generate(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(app, request, OllamaRoute::Generate).await
}

async fn answer(app: Arc<App>, request: Request, kind: OllamaRoute) -> Response {
    // The whole turn, including a streamed answer, uses one snapshot.
    let snapshot = app.host.snapshot();
    let answer = async {
        let (parts, body) = request.into_parts();
        let (key_user, bytes) = received(&app, &parts, body).await?;
        let call = Call::new(&app, &snapshot, &parts);
        let chat_request = request::read(&call.parse(&bytes)?, kind)?;
        let model = chat_request.body.text_or_empty("model");
        let base = models::untagged(&snapshot, &model);
        if base != model {
            // The request was created above.
            chat_request.body.edit("model", base);
        }
        if chat_request.is_empty {
            let model = chat_request.body.text_or_empty("model");
            let body = &chat_request.body;
            snapshot.ready_for(&model, &facts::requested_filters(body)?, body)?;
            return Ok(json_response(StatusCode::OK, &OllamaWriter::new(kind, model).loaded()));
        }
        let endpoint = Ollama { chat: chat_request.body, kind };
        serve_turn(&endpoint, &call, &bytes, &key_user).await
    };
    named(&snapshot, Box::pin(answer), refused::<OllamaWriter>).await
}

/// A converted request of Ollama's API.
struct Ollama {
    chat: Json,
    kind: OllamaRoute,
}

impl Endpoint for Ollama {
    const NAME: &'static str = "ollama";
    type Encoder = OllamaWriter;

    async fn decode(&self, _: &Call<'_>, _: &Bytes) -> Result<(ChatRequest, OllamaWriter), Error> {
        let model = self.chat.text_or_empty("model");
        Ok((ChatRequest::new(self.chat.clone())?, OllamaWriter::new(self.kind, model)))
    }
}

/// Sends no keep-alive, because lines of JSON cannot contain a comment.
impl Encoder for OllamaWriter {
    const KEEP_ALIVE: &'static [u8] = b"";
    const STREAM_TYPE: &'static str = "application/x-ndjson";

    async fn encode(self, answer: Json) -> Result<Json, Error> {
        first_choice::check(&answer)?;
        Ok(self.whole(&answer))
    }

    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes {
        match chunk {
            Chunk::Model(chunk) => self.write(&chunk.event).as_ref().map_or(Bytes::new(), line),
            Chunk::Emitted(event) => line(&Json::from([("event", event)])),
        }
    }

    fn encode_end(self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes> {
        Box::pin(ready(match end {
            Ok(_) if self.lacks_first_choice() => line(&body(&first_choice::missing())),
            Ok(_) => self.end().iter().map(line).collect::<Vec<Bytes>>().concat().into(),
            Err(error) => line(&body(&error)),
        }))
    }

    fn encode_error(error: Error) -> Response {
        OllamaError(error).into_response()
    }
}

fn line(value: &Json) -> Bytes {
    let mut bytes = value.encode().unwrap_or_else(|error| {
        tracing::error!("cannot write an event: {error}");
        br#"{"error":"an event cannot be written as JSON"}"#.to_vec()
    });
    bytes.push(b'\n');
    bytes.into()
}
