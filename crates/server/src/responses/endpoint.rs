//! The endpoint that converts requests to chats and answers to responses, with errors during a stream.
//!
//! On a WebSocket, the latest response can be continued without being stored.

use super::conversations;
use super::storage::{self, Keeper};
use crate::reply::{self, unlogged};
use crate::turn::emitted_event::RenderedText;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::events::typed_events;
use crate::{auth, first_choice};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_core::ErrorCode;
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::{HeldMemory, MemoryLimit};
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_wire::responses::answer::Resource;
use valvehouse_wire::responses::request;
use valvehouse_wire::responses::stream::ResponsesWriter;

/// Returns the events of a request with `generate: false`, for which no model is called.
///
/// # Errors
/// Returns the errors of any other request.
pub(super) async fn warmed_up(app: &Arc<App>, parts: &Parts, body: &Json) -> Result<Vec<Json>, Error> {
    auth::user_of_key(app, parts)?;
    let snapshot = app.host.snapshot();
    let bytes = Bytes::from(body.to_string());
    let (_, answer) = Responses::default().decode(&Call::new(app, &snapshot, parts), &bytes).await?;
    let (events, kept) = answer.end().await;
    kept.map(|()| events)
}

/// OpenAI's Responses API.
#[derive(Default)]
pub(super) struct Responses {
    /// The resource of the response that the turn continues in the background, and the number of its next
    /// event.
    pub(super) begun: Option<(Resource, u64)>,
    /// Set if a response may run in the background.
    pub(super) in_background: bool,
}

impl Endpoint for Responses {
    const NAME: &'static str = "responses";
    type Encoder = Answer;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Answer), Error> {
        let (app, headers) = (call.app, &call.parts.headers);
        let sent = call.parse(bytes)?;
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
        call.count(&before)?;
        storage::resolve(app, headers, &sent, &before).await?;
        let request = request::read(sent, before)?;
        let local = local.map(|local| (local.clone(), request.items()));
        let (keeper, writer) = match &self.begun {
            Some((resource, sequence)) => {
                let mut writer = ResponsesWriter::new(resource.clone(), request.spaces);
                writer.go_on(*sequence);
                (None, writer)
            }
            None => {
                let keeper = Keeper::new(app, headers, &request);
                (keeper, ResponsesWriter::new(Resource::new(&request), request.spaces))
            }
        };
        Ok((
            ChatRequest::new(request.chat)?,
            Answer { writer, keeper, local, rendered: RenderedText::default() },
        ))
    }
}

/// Writes a response or its events.
pub(super) struct Answer {
    pub(super) writer: ResponsesWriter,
    /// Stores the response, if requested.
    pub(super) keeper: Option<Keeper>,
    /// The storage of the connection's latest response, with the items of its conversation so far.
    local: Option<(Local, Vec<Json>)>,
    /// The text of events, which is sent and not stored.
    rendered: RenderedText,
}

impl Answer {
    /// Returns the events of the end and stores the response, which is in the last event, and whether the
    /// connection could store it.
    async fn end(mut self) -> (Vec<Json>, Result<(), Error>) {
        let events = self.writer.end();
        let mut kept = Ok(());
        if let (Some((local, mut items)), Some(last)) = (self.local, events.last()) {
            let response = without_events(&last.field("response"), &self.rendered);
            items.extend(response.list("output"));
            kept = local.keep(&response.text_or_empty("id"), items);
        }
        if let (Some(keeper), Some(last)) = (self.keeper, events.last()) {
            keep(keeper, &last.field("response"), &self.rendered).await;
        }
        (events, kept)
    }

    /// Returns the events of the end of a response that was sent, even if its connection cannot continue it.
    async fn end_of_sent(self) -> Vec<Json> {
        let (events, kept) = self.end().await;
        if let Err(error) = kept {
            tracing::warn!("cannot keep a response for its connection: {error}");
        }
        events
    }
}

/// Stores a response without the text of events, which later turns do not see.
async fn keep(keeper: Keeper, response: &Json, rendered: &RenderedText) {
    let stored = without_events(response, rendered);
    keeper.keep(&stored).await;
    // The field `store` of the client's copy reports whether the response was stored.
    if let Some(store) = stored.get("store") {
        response.edit("store", store);
    }
}

/// Returns a response without the text of events; the same value if it has none. Messages without other text are
/// removed.
fn without_events(response: &Json, rendered: &RenderedText) -> Json {
    if rendered.is_empty() {
        return response.clone();
    }
    let stored = response.deep_clone();
    let is_text = |part: &Json| part.is_text("type", "output_text");
    let output = stored.list("output");
    let parts: Vec<Json> = output.iter().flat_map(|item| item.list("content")).filter(is_text).collect();
    let texts: Vec<String> = parts.iter().map(|part| part.string("text")).collect();
    for (part, text) in parts.iter().zip(rendered.without(&texts)) {
        // The copy is not shared, so the write cannot fail.
        part.edit("text", text);
    }
    let is_left = |item: &Json| {
        let parts = item.list("content");
        item.text("type").is_none_or(|kind| kind != "message")
            || parts.iter().any(|part| !is_text(part) || !part.string("text").is_empty())
    };
    stored.edit("output", output.into_iter().filter(is_left).collect::<Vec<_>>());
    stored
}

impl Encoder for Answer {
    async fn encode(mut self, answer: Json) -> Result<Json, Error> {
        first_choice::check(&answer)?;
        self.writer.write_whole(&answer);
        let last = Json::from(self.end_of_sent().await.pop());
        Ok(last.field("response"))
    }

    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes {
        typed_events(&match chunk {
            Chunk::Model(chunk) => self.writer.write(&chunk.event),
            Chunk::Emitted(event) => self.writer.emitted(event),
        })
    }

    fn exclude(&mut self, rendered: RenderedText) {
        self.rendered = rendered;
    }

    fn encode_end(mut self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes> {
        Box::pin(async {
            let end = match end {
                Ok(_) if self.writer.lacks_first_choice() => Err(first_choice::missing()),
                end => end,
            };
            typed_events(&match end {
                Ok(_) => self.end_of_sent().await,
                Err(error) => {
                    let events = self.writer.fail(code_of(&error), &message_of(&error));
                    if let (Some(keeper), Some(last)) = (self.keeper, events.last()) {
                        keep(keeper, &last.field("response"), &self.rendered).await;
                    }
                    events
                }
            })
        })
    }

    fn encode_error(error: Error) -> Response {
        unlogged(&error)
    }
}

/// Returns the error code of this API for an error during a stream.
pub(super) fn code_of(error: &Error) -> &'static str {
    match (error.code(), error.status()) {
        (Some(code), _) if code != ErrorCode::UpstreamAuth => code.openai(),
        (_, 429) => "rate_limit_exceeded",
        (_, 400..=499) => "invalid_prompt",
        _ => "server_error",
    }
}

/// Returns the message of an error, without details for operators. A rate limit includes the wait in Codex's
/// format.
pub(super) fn message_of(error: &Error) -> String {
    let message = message_in(error);
    let seconds = reply::retry_after(error).and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
    match seconds.filter(|_| code_of(error) == "rate_limit_exceeded" && !message.contains("try again in")) {
        Some(seconds) => format!("{message}; try again in {seconds}s"),
        None => message,
    }
}

fn message_in(error: &Error) -> String {
    reply::body(error).at_path("error.message").str_or_empty().to_owned()
}

/// The latest response of a connection.
#[derive(Clone)]
pub(crate) struct Local {
    latest: Arc<Mutex<Option<Latest>>>,
    memory: MemoryLimit,
}

struct Latest {
    id: String,
    /// The items of its conversation, ending with those of the response.
    items: Vec<Json>,
    _held: HeldMemory,
}

/// The memory of an item that is counted, as a multiple of its estimated size.
const MEMORY_FACTOR: usize = 3;

impl Local {
    /// Starts without a response.
    pub(super) fn new(memory: MemoryLimit) -> Self {
        Self { latest: Arc::default(), memory }
    }

    /// Returns the items of the conversation that ends with the response of this id.
    pub(super) fn items(&self, id: &str) -> Option<Vec<Json>> {
        self.latest.lock().as_ref().filter(|latest| latest.id == id).map(|latest| latest.items.clone())
    }

    /// Replaces the stored response, which counts toward the memory of the host.
    ///
    /// # Errors
    /// Returns an error if the requests of the host hold too much memory; no response is stored then.
    pub(super) fn keep(&self, id: &str, items: Vec<Json>) -> Result<(), Error> {
        *self.latest.lock() = None;
        let held = self.memory.share();
        held.grow(MEMORY_FACTOR * items.iter().map(Json::size_estimate).sum::<usize>())?;
        *self.latest.lock() = Some(Latest { id: id.to_owned(), items, _held: held });
        Ok(())
    }

    /// Removes the response with this id, because a request that continued it failed.
    pub(super) fn forget(&self, id: &str) {
        self.latest.lock().take_if(|latest| latest.id == id);
    }
}
