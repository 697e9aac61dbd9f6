//! The parts of a response, its writer, and the responses that are stored.

use super::compact::Compactions;
use super::failure::{code_of, message_of};
use super::local::Local;
use super::request;
use super::resource::Resource;
use super::storage::{self, Keeper};
use super::writer::Writer;
use crate::auth;
use crate::body::parsed;
use crate::extract::{Id, Words};
use crate::first_choice;
use crate::reply::{self, OpenAiError, json_response, refused};
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::events::typed_events;
use crate::turn::left_out::left_out;
use crate::turn::serve::serve;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use valvehouse_core::chat::{ChatRequest, split};
use valvehouse_core::fault::Fault;
use valvehouse_host::app::App;
use valvehouse_json::Json;

pub(super) async fn create(State(app): State<Arc<App>>, request: Request) -> Response {
    serve(app, Responses, request).await
}

pub(super) async fn compact(State(app): State<Arc<App>>, request: Request) -> Response {
    serve(app, Compactions, request).await
}

/// The events of a response that a client asks for before it needs it: no model is asked.
///
/// # Errors
/// As for any request.
pub(super) async fn warmed_up(app: &Arc<App>, parts: &Parts, body: &Json) -> Result<Vec<Json>, Fault> {
    auth::user_of_key(app, parts)?;
    let snapshot = app.host.snapshot();
    let bytes = Bytes::from(body.to_string());
    let (_, answer) = Responses.decode(&Call::new(app, &snapshot, parts), &bytes).await?;
    Ok(answer.end().await)
}

/// OpenAI's Responses.
struct Responses;

impl Endpoint for Responses {
    const NAME: &'static str = "responses";
    type Encoder = Answer;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Answer), Fault> {
        let (app, headers) = (call.app, &call.parts.headers);
        let sent = parsed(bytes)?;
        request::check(&sent)?;
        let local = call.parts.extensions.get::<Local>();
        let before = match sent.given("previous_response_id").and_then(|id| Some(id.as_str()?.to_owned())) {
            Some(id) => match local.and_then(|local| local.items(&id)) {
                Some(items) => items,
                None => storage::before(app, call.parts, &id).await?,
            },
            None => Vec::new(),
        };
        storage::resolve(app, headers, &sent, &before).await?;
        let request = request::read(sent, before)?;
        let writer = Writer::new(Resource::new(&request), request.spaces);
        let local = local.map(|local| (local.clone(), request.conversation.clone()));
        let keeps = request.sent.get("store").and_then(|store| store.as_bool()) != Some(false);
        let keeper = keeps.then(|| Keeper::new(app, headers, request.conversation));
        Ok((
            ChatRequest::new(request.chat)?,
            Answer { writer, keeper, local, left_out: left_out(&request.left_out, "a chat service") },
        ))
    }
}

/// Writes a response, or its events.
struct Answer {
    writer: Writer,
    /// Stores it, where it is to be stored.
    keeper: Option<Keeper>,
    /// Keeps it for the next one of its connection, with the items before it.
    local: Option<(Local, Vec<Json>)>,
    left_out: Option<(HeaderName, HeaderValue)>,
}

impl Answer {
    /// The last events, the very last of which holds the response, stored.
    async fn end(mut self) -> Vec<Json> {
        let events = self.writer.end();
        if let (Some((local, mut items)), Some(last)) = (self.local, events.last()) {
            let response = last.get("response").unwrap_or_default();
            items.extend(response.get("output").unwrap_or_default().items());
            local.keep(&response.text("id").unwrap_or_default(), items);
        }
        if let (Some(keeper), Some(last)) = (self.keeper, events.last()) {
            keeper.keep(&last.get("response").unwrap_or_default()).await;
        }
        events
    }
}

impl Encoder for Answer {
    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.left_out.clone()
    }

    async fn encode(mut self, answer: Json) -> Result<Json, Fault> {
        first_choice::check(&answer)?;
        split(&answer, true).iter().for_each(|chunk| drop(self.writer.write(chunk)));
        let last = self.end().await.pop().unwrap_or_default();
        Ok(last.get("response").unwrap_or_default())
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
                Err(fault) => self.writer.fail(code_of(&fault), &message_of(&fault)),
            })
        })
    }

    fn encode_error(fault: Fault) -> Response {
        OpenAiError(fault).into_response()
    }
}

pub(super) async fn show(State(app): State<Arc<App>>, Id(id): Id, parts: Parts) -> Response {
    let found = storage::find(&app, &parts, &id).await;
    reply::answer(found.map(|stored| Json::parse(stored.response.as_bytes()).unwrap_or_default()))
}

pub(super) async fn delete(State(app): State<Arc<App>>, Id(id): Id, parts: Parts) -> Response {
    let deleted = storage::delete(&app, &parts, &id).await;
    let body = [("id", id.into()), ("object", "response".into()), ("deleted", true.into())];
    reply::answer(deleted.map(|()| Json::from(body)))
}

pub(super) async fn cancel(State(app): State<Arc<App>>, Id(id): Id, parts: Parts) -> Response {
    let found = storage::find(&app, &parts, &id).await;
    refused(found.err().unwrap_or_else(|| {
        Fault::invalid(format!("cannot cancel `{id}`: it was not created with `background: true`"), None)
    }))
}

pub(super) async fn input_items(
    State(app): State<Arc<App>>,
    Id(id): Id,
    page: Words,
    parts: Parts,
) -> Response {
    let found = async {
        let limit = page.number("limit")?.unwrap_or(20).clamp(1, 100);
        Ok::<_, Fault>((storage::find(&app, &parts, &id).await?, usize::try_from(limit).unwrap_or(100)))
    };
    let (stored, limit) = match found.await {
        Ok(found) => found,
        Err(fault) => return refused(fault),
    };
    let mut items = storage::items(&stored);
    items.truncate(stored.input_items);
    // The latest first, as OpenAI lists them.
    if page.text("order").as_deref() != Some("asc") {
        items.reverse();
    }
    let after = page.text("after");
    let is_it = |item: &Json| after.is_some() && item.text("id").as_deref() == after.as_deref();
    let from = items.iter().position(is_it).map_or(0, |at| at + 1);
    let has_more = items.len() > from + limit;
    let items: Vec<Json> = items.into_iter().skip(from).take(limit).collect();
    let id_of = |item: Option<&Json>| item.and_then(|item| item.get("id")).unwrap_or_default();
    let page = [
        ("object", "list".into()),
        ("first_id", id_of(items.first())),
        ("last_id", id_of(items.last())),
        ("has_more", has_more.into()),
        ("data", items.into()),
    ];
    json_response(StatusCode::OK, &Json::from(page))
}
