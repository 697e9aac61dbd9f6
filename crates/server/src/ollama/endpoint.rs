//! The routes: the same turn as at every other endpoint.

use super::answer::Writer;
use super::refusal::{OllamaError, body};
use super::request::{self, Kind};
use crate::body::{parsed, read, unpacked};
use crate::headers::{EVENTS, events_header, named};
use crate::openai::catalog;
use crate::openai::streaming::{Item, Streaming, Told};
use crate::reply::{self, json_response};
use crate::{auth, exchange, facts, recording};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use std::convert::Infallible;
use std::sync::Arc;
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The name of this endpoint in metrics and traces.
const NAME: &str = "ollama";

/// Ollama's routes.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/chat", post(chat))
        .route("/api/generate", post(generate))
        .route("/api/tags", get(tags))
        .route("/api/version", get(version))
}

async fn chat(State(app): State<Arc<App>>, request: Request) -> Response {
    respond(app, request, Kind::Chat).await
}

async fn generate(State(app): State<Arc<App>>, request: Request) -> Response {
    respond(app, request, Kind::Generate).await
}

async fn version() -> Response {
    json_response(StatusCode::OK, &Json::from([("version", env!("CARGO_PKG_VERSION").into())]))
}

fn refused(fault: Fault) -> Response {
    reply::log(&fault);
    OllamaError(fault).into_response()
}

async fn tags(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Err(fault) = auth::user_of_key(&app, &headers) {
        return refused(fault);
    }
    let models = catalog::list(&app.host.snapshot()).await;
    let models: Vec<Json> = models.iter().map(tag).collect();
    json_response(StatusCode::OK, &Json::from([("models", models.into())]))
}

/// A model as Ollama lists it. What nobody knows of it is empty.
fn tag(model: &Json) -> Json {
    let id = model.get("id").unwrap_or_default();
    let created = model.get("created").and_then(|time| time.as_i64()).unwrap_or(0);
    let details = model.get("details").unwrap_or_else(|| {
        let empty = ["parent_model", "format", "family", "parameter_size", "quantization_level"];
        let details = empty.into_iter().map(|key| (key.into(), Json::from("")));
        details.chain([("families".into(), Json::array())]).collect::<valvehouse_json::Object>().into()
    });
    Json::from([
        ("name", id.clone()),
        ("model", id),
        ("modified_at", jiff::Timestamp::from_second(created).unwrap_or_default().to_string().into()),
        ("size", model.get("size").unwrap_or_else(|| 0_i64.into())),
        ("digest", "".into()),
        ("details", details),
    ])
}

async fn respond(app: Arc<App>, request: Request, kind: Kind) -> Response {
    // One snapshot for the whole turn, a streamed answer to its end.
    let snapshot = app.host.snapshot();
    named(&snapshot, Box::pin(answer(app, &snapshot, request, kind)), refused).await
}

async fn answer(app: Arc<App>, snapshot: &Snapshot, request: Request, kind: Kind) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let key_user = auth::user_of_key(&app, &parts.headers)?;
    unpacked(&parts.headers)?;
    let sent = parsed(&read(body, app.config.server.max_body_mb).await?)?;
    let asked = request::read(&sent, kind)?;
    let model = asked.body.text("model").unwrap_or_default();
    let ready = snapshot.ready_for(&model, &facts::asked_filters(&asked.body)?)?;
    let writer = Writer::new(kind, model);
    if asked.is_empty {
        return Ok(json_response(StatusCode::OK, &writer.loaded()));
    }
    let body = asked.body;
    let mut facts = facts::of_chat(&app, &parts, &body, &key_user, &ready);
    let context = facts::context(&app, &facts, &body);
    let watch = recording::begin(&app, NAME, asked.stream, snapshot.generation, &parts.headers, &mut facts);
    if asked.stream {
        let exchange = facts.exchange.clone();
        // The bytes of a chat would not be understood here.
        let begun = Streaming::begin(&app, ready, body, facts, context, &parts.headers, false).await;
        let streamed = begun.map(|(first, streaming)| streamed(first, streaming, writer));
        let mut response = recording::ended(watch, streamed, refused);
        exchange::answer(exchange.as_deref(), &mut response);
        return Ok(response);
    }
    let turn = Turn::new(facts, context, Events::default());
    let (wish, told) = (Wish { stream: None, raw: false }, Told::default());
    let mut response = match app.turn(&ready, body, &turn, wish, told.hears()).await {
        Ok(Reply::Answer(answer)) => json_response(StatusCode::OK, &writer.whole(&answer)),
        Ok(Reply::Raw(_)) => refused(Fault::Host("an answer came in another service's words".into())),
        Err(fault) => refused(watch.failed(fault)),
    };
    if let Some(events) = events_header(&turn.events().take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    told.name(&mut response);
    exchange::answer(turn.exchange(), &mut response);
    Ok(recording::until_end(watch, response))
}

/// The answer as lines of JSON.
fn streamed(first: Option<Item>, mut streaming: Streaming, writer: Writer) -> Response {
    let mut response = Response::default();
    streaming.name(&mut response);
    let rest = stream::poll_fn(move |context| streaming.poll_next(context));
    let items = stream::iter(first).chain(rest).boxed();
    let lines = stream::unfold(Some((items, writer)), |state| async {
        let (mut items, mut writer) = state?;
        let written = match items.next().await {
            Some(Item::Piece(piece)) => writer.write(&piece.event).iter().map(line).collect(),
            Some(Item::Emitted(event)) => vec![line(&Json::from([("event", event)]))],
            Some(Item::Raw(_)) => Vec::new(),
            Some(Item::Failed(fault)) => {
                tracing::warn!("a stream ended with an error: {fault}");
                return Some((line(&body(&fault)), None));
            }
            None => {
                let last: Vec<Bytes> = writer.end().iter().map(line).collect();
                return Some((last.concat().into(), None));
            }
        };
        Some((written.concat().into(), Some((items, writer))))
    });
    let lines = lines.filter(|bytes: &Bytes| std::future::ready(!bytes.is_empty()));
    *response.body_mut() = Body::from_stream(lines.map(Ok::<_, Infallible>));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn line(value: &Json) -> Bytes {
    let mut bytes = value.encode().unwrap_or_default();
    bytes.push(b'\n');
    bytes.into()
}
