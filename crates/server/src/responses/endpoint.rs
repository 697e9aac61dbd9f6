//! Requests as chats, and answers as responses, whole or as events.

use super::conversations;
use super::failure::{code_of, message_of};
use super::local::Local;
use super::request;
use super::resource::Resource;
use super::storage::{self, Keeper};
use super::writer::Writer;
use crate::auth;
use crate::body::parsed;
use crate::first_choice;
use crate::reply::OpenAiError;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::events::typed_events;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use valvehouse_core::chat::{ChatRequest, response, split};
use valvehouse_core::fault::Fault;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The events of a response that a client asks for before it needs it: no model is asked.
///
/// # Errors
/// As for any request.
pub(super) async fn warmed_up(app: &Arc<App>, parts: &Parts, body: &Json) -> Result<Vec<Json>, Fault> {
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
    /// Is `true` if a response may be one in the background.
    pub(super) in_background: bool,
}

impl Endpoint for Responses {
    const NAME: &'static str = "responses";
    type Encoder = Answer;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Answer), Fault> {
        let (app, headers) = (call.app, &call.parts.headers);
        let sent = parsed(bytes)?;
        request::check(&sent)?;
        if !self.in_background && sent.get("background").and_then(|is| is.as_bool()) == Some(true) {
            return Err(Fault::invalid(
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
    async fn encode(mut self, answer: Json) -> Result<Json, Fault> {
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
            Chunk::Piece(piece) => self.writer.write(&piece.event),
            Chunk::Emitted(event) => self.writer.emitted(event),
        })
    }

    fn encode_end(mut self, end: Result<Json, Fault>) -> BoxFuture<'static, Bytes> {
        Box::pin(async {
            let end = match end {
                Ok(_) if self.writer.lacks_first_choice() => Err(first_choice::missing()),
                end => end,
            };
            typed_events(&match end {
                Ok(_) => self.end().await,
                Err(fault) => {
                    let events = self.writer.fail(code_of(&fault), &message_of(&fault));
                    if let (Some(keeper), Some(last)) = (self.keeper, events.last()) {
                        keeper.keep(&last.field("response")).await;
                    }
                    events
                }
            })
        })
    }

    fn encode_error(fault: Fault) -> Response {
        OpenAiError(fault).into_response()
    }
}
