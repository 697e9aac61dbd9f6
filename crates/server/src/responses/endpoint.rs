//! The routes.

use super::field::given;
use super::request::{self, ResponsesRequest};
use super::resource::Resource;
use super::storage::{self, Keeper};
use super::stream;
use super::writer::Writer;
use crate::body::{parsed, read, unpacked};
use crate::extract::{Id, Words};
use crate::headers::{EVENTS, events_header, named};
use crate::openai::streaming::{Streaming, Told};
use crate::reply::{self, OpenAiError, json_response};
use crate::{auth, facts, first_choice, recording};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use valvehouse_core::chat::split;
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The name of this endpoint in metrics and traces.
const NAME: &str = "responses";
/// Names hosted tools and items that no chat service can be sent.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-valvehouse-left-out");

/// The routes of the Responses API.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/responses", post(create).get(upgrade))
        .route("/v1/responses/{id}", get(show).delete(delete))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .route("/v1/responses/{id}/input_items", get(input_items))
}

async fn create(State(app): State<Arc<App>>, request: Request) -> Response {
    // One snapshot for the whole turn, a streamed answer to its end.
    let snapshot = app.host.snapshot();
    named(&snapshot, answer(app, &snapshot, request), refused).await
}

fn refused(fault: Fault) -> Response {
    reply::log(&fault);
    OpenAiError(fault).into_response()
}

async fn answer(app: Arc<App>, snapshot: &Snapshot, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let key_user = auth::user_of_key(&app, &parts.headers)?;
    unpacked(&parts.headers)?;
    let sent = parsed(&read(body, app.config.server.max_body_mb).await?)?;
    storage::resolve(&app, &parts.headers, &sent).await?;
    let before = match given(&sent, "previous_response_id") {
        Some(id) => storage::before(&app, &parts.headers, id.as_str().unwrap_or_default()).await?,
        None => Vec::new(),
    };
    let request = request::read(sent, &before)?;
    let chat = request.chat.clone();
    let model = chat.text("model").unwrap_or_default();
    let ready = snapshot.ready_for(&model, &facts::asked_filters(&chat)?)?;
    let mut facts = facts::of_chat(&app, &parts, &chat, &key_user, &ready);
    let context = facts::context(&app, &facts, &chat);
    let stream = valvehouse_core::chat::request::wants_stream(&chat);
    let watch = recording::begin(&app, NAME, stream, snapshot.generation, &parts.headers, &mut facts);
    let keeps = request.sent.get("store").and_then(|store| store.as_bool()) != Some(false);
    let input: Vec<Json> = before.into_iter().chain(request.items.iter().cloned()).collect();
    let keeper = keeps.then(|| Keeper::new(&app, &parts.headers, input));
    let left_out = left_out(&request);
    let mut writer = Writer::new(Resource::new(&request));
    if stream {
        // The bytes of a chat would not be understood here.
        let begun = Streaming::begin(&app, ready, chat, facts, context, &parts.headers, false).await;
        let keep_alive_ms = app.config.server.keep_alive_ms;
        let streamed = begun.map(|(first, streaming)| {
            let mut response = stream::respond(first, streaming, writer, keeper, keep_alive_ms);
            response.headers_mut().extend(left_out);
            response
        });
        return Ok(recording::ended(watch, streamed, refused));
    }
    let turn = Turn::new(facts, context, Events::default());
    let (wish, told) = (Wish { stream: None, raw: false }, Told::default());
    let answered = app.turn(&ready, chat, &turn, wish, told.hears()).await;
    let mut response = match answered {
        Ok(Reply::Answer(answer)) => match first_choice::check(&answer) {
            Ok(()) => {
                split(&answer, true).iter().for_each(|chunk| drop(writer.write(chunk)));
                let last = writer.end().pop().unwrap_or_default();
                let response = last.get("response").unwrap_or_default();
                if let Some(keeper) = keeper {
                    keeper.keep(writer.id(), &writer.items(), &response).await;
                }
                json_response(StatusCode::OK, &response)
            }
            Err(fault) => refused(watch.failed(fault)),
        },
        Ok(Reply::Raw(_)) => refused(Fault::Host("an answer came in another service's words".into())),
        Err(fault) => refused(watch.failed(fault)),
    };
    if let Some(events) = events_header(&turn.events().take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    response.headers_mut().extend(left_out);
    told.name(&mut response);
    Ok(recording::until_end(watch, response))
}

/// The header that names what a chat service could not be sent.
fn left_out(request: &ResponsesRequest) -> Option<(HeaderName, HeaderValue)> {
    let names = request::left_out(request);
    if names.is_empty() {
        return None;
    }
    tracing::info!("left out of a request for a chat service: {}", names.join(", "));
    HeaderValue::from_str(&names.join(", ")).ok().map(|names| (LEFT_OUT, names))
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
    let found = async {
        auth::user_of_key(&app, &headers)?;
        storage::find(&app, &headers, &id).await
    };
    match found.await {
        Ok(stored) => {
            json_response(StatusCode::OK, &Json::parse(stored.response.as_bytes()).unwrap_or_default())
        }
        Err(fault) => refused(fault),
    }
}

async fn delete(State(app): State<Arc<App>>, Id(id): Id, headers: HeaderMap) -> Response {
    let deleted = async {
        auth::user_of_key(&app, &headers)?;
        storage::delete(&app, &headers, &id).await
    };
    match deleted.await {
        Ok(()) => {
            let body = [("id", id.into()), ("object", "response".into()), ("deleted", true.into())];
            json_response(StatusCode::OK, &Json::from(body))
        }
        Err(fault) => refused(fault),
    }
}

async fn cancel(State(app): State<Arc<App>>, Id(id): Id, headers: HeaderMap) -> Response {
    let found = async {
        auth::user_of_key(&app, &headers)?;
        storage::find(&app, &headers, &id).await?;
        let message = format!("cannot cancel `{id}`: it was not created with `background: true`");
        Err(Fault::invalid(message, None))
    };
    found.await.map_or_else(refused, |never: std::convert::Infallible| match never {})
}

async fn input_items(State(app): State<Arc<App>>, Id(id): Id, page: Words, headers: HeaderMap) -> Response {
    let found = async {
        auth::user_of_key(&app, &headers)?;
        let limit = page.number("limit")?.unwrap_or(20).clamp(1, 100);
        Ok::<_, Fault>((storage::find(&app, &headers, &id).await?, usize::try_from(limit).unwrap_or(100)))
    };
    let (mut items, limit): (Vec<Json>, usize) = match found.await {
        Ok((stored, limit)) => {
            (storage::items(&stored).into_iter().take(stored.input_items).collect(), limit)
        }
        Err(fault) => return refused(fault),
    };
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
