//! `POST /v1/chat/completions`.

use super::relay;
use super::streaming::{Item, Streaming, Told};
use crate::gate::{drain, too_large};
use crate::reply::{OpenAiError, json_response};
use crate::{GENERATION, auth, facts, pipelines, watched};
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use std::sync::Arc;
use valvehouse_core::chat::request;
use valvehouse_core::context::{Context, Event, Events, Turn, TurnFacts};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish, is_ours};
use valvehouse_core::provider::Traced;
use valvehouse_host::app::App;
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::{Json, skim};
use valvehouse_providers as llm;

/// The name of this door in figures and traces.
pub(crate) const DOOR: &str = "chat";
/// Clients that want to see what plugins emit say so with this header.
pub(crate) const EVENTS: HeaderName = HeaderName::from_static("x-valvehouse-events");
/// Names who answered, `provider/model`, where a model has fallbacks.
const MODEL: HeaderName = HeaderName::from_static("x-valvehouse-model");
/// Emitted events in a header are cut here.
const EVENTS_LENGTH: usize = 8 * 1024;
/// One chat.
pub(crate) async fn chat(State(app): State<Arc<App>>, request: Request) -> Response {
    // One snapshot for the whole turn, a streamed answer to its end.
    let snapshot = app.host.snapshot();
    // In a place of its own: what is around it is handed on from layer to layer.
    let answer = Box::pin(answer(app, &snapshot, request));
    named(&snapshot, answer, refused).await
}

/// An answer with the names of the generation and, where a model has fallbacks, of who answered.
pub(crate) async fn named(
    snapshot: &Snapshot,
    answer: impl Future<Output = Result<Response, Fault>>,
    refused: impl FnOnce(Fault) -> Response,
) -> Response {
    let (answered, served) = llm::noticing(answer).await;
    let mut response = answered.unwrap_or_else(refused);
    let headers = response.headers_mut();
    if let Some(model) = served.and_then(|model| HeaderValue::from_str(&model).ok()) {
        headers.insert(MODEL, model);
    }
    headers.insert(GENERATION, HeaderValue::from(snapshot.generation));
    response
}

fn refused(fault: Fault) -> Response {
    crate::reply::log(&fault);
    OpenAiError(fault).into_response()
}

async fn answer(app: Arc<App>, snapshot: &Snapshot, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let key_user = auth::user_of_key(&app, &parts.headers)?;
    unpacked(&parts.headers)?;
    let bytes = read(body, app.config.server.max_body_mb).await?;
    // Who keeps everything looks at every answer.
    if !app.traces.keeps_everything()
        && let Some((ready, stream)) = nobody_looks(snapshot, &bytes)
        && let Some(provider) = ready.kernel.provider()
        && let Some(forwarded) = provider.forward(bytes.clone(), stream)
    {
        let mut facts = TurnFacts { user: key_user, model: ready.facts, ..TurnFacts::default() };
        let watch = watched::begin(&app, DOOR, stream, snapshot.generation, &parts.headers, &mut facts);
        let keep_alive_ms = app.config.server.keep_alive_ms;
        let (trace, model) = (facts.trace, facts.model.text("id").unwrap_or_default());
        let asked = || Json::parse(&bytes).unwrap_or_default();
        let call = Traced::begin(trace.as_ref(), provider.name(), &model, asked);
        let relayed = async { relay::relay(call.follow(forwarded.await)?, keep_alive_ms, trace).await };
        return Ok(watched::ended(watch, relayed.await, refused));
    }
    // A whole turn is larger: whoever forwards bytes does not carry its room along.
    Box::pin(looked_at(app, snapshot, parts, bytes, key_user)).await
}

/// A turn in which somebody has a part.
async fn looked_at(
    app: Arc<App>,
    snapshot: &Snapshot,
    parts: Parts,
    bytes: Bytes,
    key_user: Json,
) -> Result<Response, Fault> {
    let may_pass = !app.traces.keeps_everything();
    let body = parsed(&bytes)?;
    request::check(&body)?;
    let model = body.text("model").unwrap_or_default();
    let mut ready = snapshot.ready_for(&model, &facts::asked_filters(&body)?)?;
    let mut facts = facts::of_chat(&app, &parts, &body, &key_user, &ready);
    let stream = request::wants_stream(&body);
    let context = pipelines::go_on(&app, snapshot, &parts, &body, &mut ready, &mut facts);
    let watch = watched::begin(&app, DOOR, stream, snapshot.generation, &parts.headers, &mut facts);
    if stream {
        let streamed = streamed(&app, ready, body, facts, context, &parts).await;
        return Ok(watched::ended(watch, streamed, refused));
    }
    let turn = Turn::new(facts, context, Events::default());
    let told = Told::default();
    let wish = Wish { stream: None, raw: may_pass };
    let reply = app.turn(&ready, body, &turn, wish, told.hears()).await;
    let mut response = match reply {
        Ok(Reply::Answer(answer)) => json_response(StatusCode::OK, &answer),
        Ok(Reply::Raw(forwarded)) => {
            let relayed =
                relay::relay(forwarded, app.config.server.keep_alive_ms, turn.trace().cloned()).await;
            relayed.unwrap_or_else(|fault| refused(watch.failed(fault)))
        }
        Err(fault) => refused(watch.failed(fault)),
    };
    if let Some(events) = events_header(&turn.events().take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    told.name(&mut response);
    Ok(watched::until_end(watch, response))
}

/// A body that is JSON.
pub(crate) fn parsed(bytes: &Bytes) -> Result<Json, Fault> {
    Json::parse_shared(bytes)
        .map_err(|error| Fault::invalid(format!("the request body is no JSON: {error}"), None))
}

pub(crate) async fn read(body: Body, max_mb: u64) -> Result<Bytes, Fault> {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let limit = usize::try_from(max_mb.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX);
    let announced = usize::try_from(HttpBody::size_hint(&body).lower()).unwrap_or(limit).min(limit);
    let mut pieces = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| unreadable(&error, max_mb))?;
        if first.len() + whole.len() + piece.len() > limit {
            drain(pieces).await;
            return Err(too_large(max_mb));
        }
        // Most bodies come in one piece, which is not copied.
        match (first.is_empty(), whole.is_empty()) {
            (true, true) => first = piece,
            (_, is_first) => {
                if is_first {
                    whole.reserve(announced);
                    whole.extend_from_slice(&std::mem::take(&mut first));
                }
                whole.extend_from_slice(&piece);
            }
        }
    }
    let bytes = if whole.is_empty() { first } else { whole.freeze() };
    Ok(if bytes.starts_with(BOM) { bytes.slice(BOM.len()..) } else { bytes })
}

fn unreadable(error: &axum::Error, max_mb: u64) -> Fault {
    let source = std::error::Error::source(error);
    if source.is_some_and(|source| source.to_string().contains("length limit")) {
        return too_large(max_mb);
    }
    Fault::invalid(format!("the request body could not be read: {error}"), None)
}

/// Refuses a body that is packed: it would not be read as what it is.
pub(crate) fn unpacked(headers: &HeaderMap) -> Result<(), Fault> {
    let packing = headers.get(header::CONTENT_ENCODING).and_then(|packing| packing.to_str().ok());
    match packing.filter(|packing| !packing.is_empty() && !packing.eq_ignore_ascii_case("identity")) {
        None => Ok(()),
        Some(packing) => Err(Fault::invalid(
            format!(
                "cannot read the request body: content-encoding {packing} is not supported; send it without"
            ),
            None,
        )),
    }
}

/// A turn in which no filter, no tool and no word of the configuration has a part: its bytes can
/// go both ways as they are. Whoever names a field of ours wants to be looked at.
fn nobody_looks(snapshot: &Snapshot, bytes: &[u8]) -> Option<(Ready, bool)> {
    if !snapshot.may_forward() {
        return None;
    }
    let (mut model, mut stream, mut has_messages, mut is_plain) = (None, None, false, true);
    let is_object = skim(bytes, |key, value| match key {
        "model" => is_plain &= model.replace(value).is_none(),
        "stream" => is_plain &= stream.replace(value).is_none(),
        "messages" => has_messages = value.strip_prefix('[').is_some_and(|rest| rest.trim_start() != "]"),
        key => is_plain &= value == "null" || !is_ours(key, value.starts_with('{')),
    });
    if !(is_object && is_plain && has_messages) {
        return None;
    }
    // A name with escapes in it is left to who reads them.
    let model = model?.strip_prefix('"')?.strip_suffix('"').filter(|name| !name.contains('\\'))?;
    let stream = match stream.unwrap_or("null") {
        "true" => true,
        "false" | "null" => false,
        _ => return None,
    };
    let ready = snapshot.ready(model, &[]).ok()?;
    ready.is_untouched().then_some((ready, stream))
}

/// Stands for the events that did not fit.
const CUT: &str = r#"{"type":"cut"}"#;

pub(crate) fn events_header(events: &[Event]) -> Option<HeaderValue> {
    if events.is_empty() {
        return None;
    }
    let (mut text, mut ends) = (String::from("["), Vec::new());
    for event in events {
        // Where the list may be cut.
        ends.push(text.len());
        text.push_str(if ends.len() > 1 { "," } else { "" });
        text.push_str(&ascii(&event.0.to_string()));
        if text.len() >= EVENTS_LENGTH {
            let fits = |end: &usize| *end + CUT.len() + 2 <= EVENTS_LENGTH;
            let end = ends.into_iter().rev().find(fits).unwrap_or(1);
            text.truncate(end);
            text.push_str(if end > 1 { "," } else { "" });
            text.push_str(CUT);
            break;
        }
    }
    text.push(']');
    HeaderValue::from_str(&text).ok()
}

/// JSON in ASCII, as a header has to be.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for unit in json.chars() {
        if unit.is_ascii() {
            out.push(unit);
        } else {
            let mut units = [0; 2];
            unit.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

async fn streamed(
    app: &Arc<App>,
    ready: Ready,
    body: Json,
    facts: TurnFacts,
    context: Context,
    parts: &Parts,
) -> Result<Response, Fault> {
    let keep_alive_ms = app.config.server.keep_alive_ms;
    let trace = facts.trace.clone();
    let raw = !app.traces.keeps_everything();
    match Streaming::begin(app, ready, body, facts, context, &parts.headers, raw).await? {
        (Some(Item::Raw(forwarded)), _) => relay::relay(forwarded, keep_alive_ms, trace).await,
        (first, streaming) => Ok(streaming.respond(first, keep_alive_ms, std::future::ready(Bytes::new()))),
    }
}
