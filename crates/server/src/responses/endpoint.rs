//! The routes, and what a response is made of and written by.

use super::failure::{code_of, message_of};
use super::request;
use super::resource::Resource;
use super::storage::{self, Keeper};
use super::writer::Writer;
use crate::body::parsed;
use crate::extract::{Id, Words};
use crate::first_choice;
use crate::reply::{self, OpenAiError, json_response, refused};
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::events::typed_events;
use crate::turn::left_out::left_out;
use crate::turn::serve::serve;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use valvehouse_core::chat::{ChatRequest, split};
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The routes of the Responses API.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/responses", post(create).get(upgrade))
        .route("/v1/responses/{id}", get(show).delete(delete))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .route("/v1/responses/{id}/input_items", get(input_items))
}

async fn create(State(app): State<Arc<App>>, request: Request) -> Response {
    serve(app, Responses, request).await
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
        let before = match sent.given("previous_response_id") {
            Some(id) => storage::before(app, headers, id.as_str().unwrap_or_default()).await?,
            None => Vec::new(),
        };
        storage::resolve(app, headers, &sent, &before).await?;
        let request = request::read(sent, before)?;
        let writer = Writer::new(Resource::new(&request));
        let keeps = request.sent.get("store").and_then(|store| store.as_bool()) != Some(false);
        let keeper = keeps.then(|| Keeper::new(app, headers, request.conversation));
        Ok((
            ChatRequest::new(request.chat)?,
            Answer { writer, keeper, left_out: left_out(&request.left_out, "a chat service") },
        ))
    }
}

/// Writes a response, or its events.
struct Answer {
    writer: Writer,
    /// Stores it, where it is to be stored.
    keeper: Option<Keeper>,
    left_out: Option<(HeaderName, HeaderValue)>,
}

impl Answer {
    /// The last events, the very last of which holds the response, stored.
    async fn end(mut self) -> Vec<Json> {
        let events = self.writer.end();
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

/// `GET /v1/responses` is how clients ask for a WebSocket. Those that read 426 use events at once.
async fn upgrade() -> Response {
    let fault = Fault::Request {
        message: "cannot open a WebSocket: this host sends the events of a response over HTTP; use POST"
            .into(),
        param: None,
        code: Some("websocket_unsupported"),
        kind: RequestFault::Invalid,
    };
    let mut response = OpenAiError(fault).into_response();
    *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn show(State(app): State<Arc<App>>, Id(id): Id, headers: HeaderMap) -> Response {
    let found = storage::find(&app, &headers, &id).await;
    reply::answer(found.map(|stored| Json::parse(stored.response.as_bytes()).unwrap_or_default()))
}

async fn delete(State(app): State<Arc<App>>, Id(id): Id, headers: HeaderMap) -> Response {
    let deleted = storage::delete(&app, &headers, &id).await;
    let body = [("id", id.into()), ("object", "response".into()), ("deleted", true.into())];
    reply::answer(deleted.map(|()| Json::from(body)))
}

async fn cancel(State(app): State<Arc<App>>, Id(id): Id, headers: HeaderMap) -> Response {
    let found = storage::find(&app, &headers, &id).await;
    refused(found.err().unwrap_or_else(|| {
        Fault::invalid(format!("cannot cancel `{id}`: it was not created with `background: true`"), None)
    }))
}

async fn input_items(State(app): State<Arc<App>>, Id(id): Id, page: Words, headers: HeaderMap) -> Response {
    let found = async {
        let limit = page.number("limit")?.unwrap_or(20).clamp(1, 100);
        Ok::<_, Fault>((storage::find(&app, &headers, &id).await?, usize::try_from(limit).unwrap_or(100)))
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
