//! Requests as chats, and answers as responses, whole or as events.
//!
//! Errors in the middle of a stream.
//!
//! The latest response of a WebSocket, which the next one may continue although it is not stored.

use super::resource::Resource;
use super::storage::{self, Keeper};
use super::writer::Writer;
use super::{conversations, request};
use crate::body::parsed;
use crate::reply::{self, OpenAiError};
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::events::typed_events;
use crate::{auth, first_choice};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_core::chat::{ChatRequest, response, split};
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The events of a response that a client asks for before it needs it: no model is asked.
///
/// # Errors
/// As for any request.
pub(super) async fn warmed_up(app: &Arc<App>, parts: &Parts, body: &Json) -> Result<Vec<Json>, Error> {
    auth::user_of_key(app, parts)?;
    let snapshot = app.host.snapshot();
    let bytes = Bytes::from(body.to_string());
    let (_, answer) = Responses::default().decode(&Call::new(app, &snapshot, parts), &bytes).await?;
    Ok(answer.end().await)
}

/// OpenAI's Responses.
#[derive(Default)]
pub(super) struct Responses {
    /// The response in the background that the turn makes: its resource, and the number of its next event.
    pub(super) begun: Option<(Resource, u64)>,
    /// Set if a response may run in the background.
    pub(super) in_background: bool,
}

impl Endpoint for Responses {
    const NAME: &'static str = "responses";
    type Encoder = Answer;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Answer), Error> {
        let (app, headers) = (call.app, &call.parts.headers);
        let sent = parsed(bytes)?;
        request::check(&sent)?;
        if !self.in_background && sent.get("background").and_then(|is| is.as_bool()) == Some(true) {
            return Err(Error::invalid(
                "cannot answer in the background here; use POST /v1/responses",
                Some("background"),
            ));
        }
        let local = call.parts.extensions.get::<Local>();
        let before = match sent.given("previous_response_id").and_then(|id| Some(id.as_str()?.to_owned())) {
            Some(id) => match local.and_then(|local| local.items(&id)) {
                Some(items) => items,
                None => storage::before(app, call.parts, &id).await?,
            },
            None => match sent.given("conversation").and_then(|given| request::conversation_id(&given)) {
                Some(id) => conversations::before(app, call.parts, &id).await?,
                None => Vec::new(),
            },
        };
        storage::resolve(app, headers, &sent, &before).await?;
        let request = request::read(sent, before)?;
        let (keeper, writer) = match &self.begun {
            Some((resource, sequence)) => {
                let mut writer = Writer::new(resource.clone(), request.spaces);
                writer.go_on(*sequence);
                (None, writer)
            }
            None => {
                let keeper = Keeper::new(app, headers, &request);
                (keeper, Writer::new(Resource::new(&request), request.spaces))
            }
        };
        let local = local.map(|local| (local.clone(), request.conversation));
        Ok((ChatRequest::new(request.chat)?, Answer { writer, keeper, local }))
    }
}

/// Writes a response, or its events.
pub(super) struct Answer {
    pub(super) writer: Writer,
    /// Stores it, where it is to be stored.
    pub(super) keeper: Option<Keeper>,
    /// Keeps it for the next one of its connection, with the items before it.
    local: Option<(Local, Vec<Json>)>,
}

impl Answer {
    /// The last events, the very last of which holds the response, stored.
    async fn end(mut self) -> Vec<Json> {
        let events = self.writer.end();
        if let (Some((local, mut items)), Some(last)) = (self.local, events.last()) {
            let response = last.field("response");
            items.extend(response.list("output"));
            local.keep(&response.text_or_empty("id"), items);
        }
        if let (Some(keeper), Some(last)) = (self.keeper, events.last()) {
            keeper.keep(&last.field("response")).await;
        }
        events
    }
}

impl Encoder for Answer {
    async fn encode(mut self, answer: Json) -> Result<Json, Error> {
        first_choice::check(&answer)?;
        let choice = Json::from(response::first_choice(&answer));
        self.writer.expect_logprobs(&choice);
        self.writer.expect_thoughts(&choice);
        split(&answer, true).iter().for_each(|chunk| drop(self.writer.write(chunk)));
        let last = Json::from(self.end().await.pop());
        Ok(last.field("response"))
    }

    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes {
        typed_events(&match chunk {
            Chunk::Model(chunk) => self.writer.write(&chunk.event),
            Chunk::Emitted(event) => self.writer.emitted(event),
        })
    }

    fn encode_end(mut self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes> {
        Box::pin(async {
            let end = match end {
                Ok(_) if self.writer.lacks_first_choice() => Err(first_choice::missing()),
                end => end,
            };
            typed_events(&match end {
                Ok(_) => self.end().await,
                Err(error) => {
                    let events = self.writer.fail(code_of(&error), &message_of(&error));
                    if let (Some(keeper), Some(last)) = (self.keeper, events.last()) {
                        keeper.keep(&last.field("response")).await;
                    }
                    events
                }
            })
        })
    }

    fn encode_error(error: Error) -> Response {
        OpenAiError(error).into_response()
    }
}

/// Codes of services that clients act on: they shorten the conversation, wait, or give up.
const KNOWN: [&str; 3] = ["context_length_exceeded", "insufficient_quota", "rate_limit_exceeded"];

/// The code of an error in the middle of a stream, in the words that clients of this API read.
pub(super) fn code_of(error: &Error) -> &'static str {
    let body = reply::body(error).field("error");
    let named = ["code", "type"].iter().find_map(|key| {
        let given = body.text(key)?;
        KNOWN.into_iter().find(|known| *known == given)
    });
    named.unwrap_or_else(|| match reply::status(error) {
        429 => "rate_limit_exceeded",
        400 | 413 if told(error).contains("context") => "context_length_exceeded",
        400..=499 => "invalid_prompt",
        _ => "server_error",
    })
}

/// The message of an error, without details for operators. A temporary limit names its end as Codex reads it.
pub(super) fn message_of(error: &Error) -> String {
    let message = told(error);
    let seconds = reply::retry_after(error).and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
    match seconds.filter(|_| code_of(error) == "rate_limit_exceeded" && !message.contains("try again in")) {
        Some(seconds) => format!("{message}; try again in {seconds}s"),
        None => message,
    }
}

fn told(error: &Error) -> String {
    reply::body(error).at_path("error.message").str_or_empty().to_owned()
}

/// The latest response of one connection.
#[derive(Clone, Default)]
pub(crate) struct Local(Arc<Mutex<Option<Latest>>>);

struct Latest {
    id: String,
    /// The items of the conversation that it ended, its own at their end.
    items: Vec<Json>,
}

impl Local {
    /// The items of the conversation that the response of this id ended.
    pub(super) fn items(&self, id: &str) -> Option<Vec<Json>> {
        self.0.lock().as_ref().filter(|latest| latest.id == id).map(|latest| latest.items.clone())
    }

    /// Keeps a response in place of the one before.
    pub(super) fn keep(&self, id: &str, items: Vec<Json>) {
        *self.0.lock() = Some(Latest { id: id.to_owned(), items });
    }

    /// Forgets the response of this id: what continued it failed.
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().take_if(|latest| latest.id == id);
    }
}
