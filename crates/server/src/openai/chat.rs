//! `POST /v1/chat/completions`.

use super::relay;
use super::streaming::{Item, Streaming, Told};
use crate::body::{parsed, read, unpacked};
use crate::headers::{EVENTS, events_header, named};
use crate::reply::{json_response, refused};
use crate::{auth, exchange, facts, pipelines, recording};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use valvehouse_core::chat::request;
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish, is_ours};
use valvehouse_core::provider::{ForwardRequest, Traced};
use valvehouse_host::app::App;
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::{Json, skim};

/// The name of this door in figures and traces.
pub(crate) const DOOR: &str = "chat";

/// One chat.
pub(crate) async fn chat(State(app): State<Arc<App>>, request: Request) -> Response {
    // One snapshot for the whole turn, a streamed answer to its end.
    let snapshot = app.host.snapshot();
    // In a place of its own: what is around it is handed on from layer to layer.
    let answer = Box::pin(answer(app, &snapshot, request));
    named(&snapshot, answer, refused).await
}

async fn answer(app: Arc<App>, snapshot: &Snapshot, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let key_user = auth::user_of_key(&app, &parts.headers)?;
    unpacked(&parts.headers)?;
    let bytes = read(body, app.config.server.max_body_mb).await?;
    // Who keeps everything looks at every answer.
    if !app.traces.keeps_everything()
        && let Some((ready, model, stream)) = nobody_looks(snapshot, &bytes)
        && let Some(provider) = ready.kernel.provider()
    {
        let exchange = exchange::of(&app, &parts.headers);
        let request = ForwardRequest { body: bytes.clone(), stream, model, exchange: &exchange };
        if let Some(forwarded) = provider.forward(request) {
            let mut facts = TurnFacts { user: key_user, model: ready.facts, ..TurnFacts::default() };
            let watch = recording::begin(&app, DOOR, stream, snapshot.generation, &parts.headers, &mut facts);
            let keep_alive_ms = app.config.server.keep_alive_ms;
            let (trace, model) = (facts.trace, facts.model.text("id").unwrap_or_default());
            let asked = || Json::parse(&bytes).unwrap_or_default();
            let call = Traced::begin(trace.as_ref(), provider.name(), &model, asked);
            let relayed = async { relay::relay(call.follow(forwarded.await)?, keep_alive_ms, trace).await };
            let mut response = recording::ended(watch, relayed.await, refused);
            exchange::answer(&exchange, &mut response);
            return Ok(response);
        }
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
    let context = pipelines::split_turn::go_on(&app, snapshot, &parts, &body, &mut ready, &mut facts);
    let watch = recording::begin(&app, DOOR, stream, snapshot.generation, &parts.headers, &mut facts);
    if stream {
        let exchange = facts.exchange.clone();
        let streamed = streamed(&app, ready, body, facts, context, &parts).await;
        let mut response = recording::ended(watch, streamed, refused);
        exchange::answer(exchange.as_deref(), &mut response);
        return Ok(response);
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
    exchange::answer(turn.exchange(), &mut response);
    Ok(recording::until_end(watch, response))
}

/// A turn in which no filter, no tool and no word of the configuration has a part: its bytes can
/// go both ways as they are. Whoever names a field of ours wants to be looked at.
fn nobody_looks<'a>(snapshot: &Snapshot, bytes: &'a [u8]) -> Option<(Ready, &'a str, bool)> {
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
    ready.is_untouched().then_some((ready, model, stream))
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
