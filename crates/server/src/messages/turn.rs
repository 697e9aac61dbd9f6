//! `POST /v1/messages`: the same turn as at every other door, asked for and answered in Anthropic's
//! words.

use super::count;
use super::refusal::AnthropicError;
use super::stream::streamed;
use crate::body::{parsed, read, unpacked};
use crate::headers::{EVENTS, events_header, named};
use crate::openai::streaming::Told;
use crate::reply::json_response;
use crate::{auth, exchange, facts, recording};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::anthropic;
use valvehouse_core::chat::request;
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Names wishes of a request that no service with another API can be sent.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-valvehouse-left-out");

/// One chat.
pub(crate) async fn messages(State(app): State<Arc<App>>, request: Request) -> Response {
    // One snapshot for the whole turn, a streamed answer to its end.
    let snapshot = app.host.snapshot();
    named(&snapshot, answer(app, &snapshot, request), refused).await
}

fn refused(fault: Fault) -> Response {
    crate::reply::log(&fault);
    AnthropicError(fault).into_response()
}

async fn answer(app: Arc<App>, snapshot: &Snapshot, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let key_user = auth::user_of_key(&app, &parts.headers)?;
    unpacked(&parts.headers)?;
    let bytes = read(body, app.config.server.max_body_mb).await?;
    let asked = parsed(&bytes)?;
    let body = anthropic::read(&asked, beta(&parts.headers).as_deref())?;
    let model = body.text("model").unwrap_or_default();
    let ready = snapshot.ready_for(&model, &facts::asked_filters(&body)?)?;
    let mut facts = facts::of_chat(&app, &parts, &body, &key_user, &ready);
    let context = facts::context(&app, &facts, &body);
    let stream = request::wants_stream(&body);
    let left_out = left_out(&body, count::has_counter(&ready, &app));
    let watch = recording::begin(&app, "messages", stream, snapshot.generation, &parts.headers, &mut facts);
    if stream {
        let exchange = facts.exchange.clone();
        let streamed = streamed(&app, ready, body, facts, context, &parts.headers).await;
        let mut response = recording::ended(watch, streamed, refused);
        response.headers_mut().extend(left_out);
        exchange::answer(exchange.as_deref(), &mut response);
        return Ok(response);
    }
    let turn = Turn::new(facts, context, Events::default());
    // Other services' bytes would not be understood here.
    let (wish, told) = (Wish { stream: None, raw: false }, Told::default());
    let reply = app.turn(&ready, body, &turn, wish, told.hears()).await;
    let mut response = match reply {
        // A message needs a choice to be made of.
        Ok(Reply::Answer(answer)) if answer.get("choices").is_none_or(|choices| choices.is_empty()) => {
            let message = "the answer of the provider has no choices";
            refused(watch.failed(Fault::Provider { message: message.into(), timeout: false }))
        }
        Ok(Reply::Answer(answer)) => json_response(StatusCode::OK, &anthropic::message(&answer)),
        Ok(Reply::Raw(_)) => refused(Fault::Host("an answer came in another service's words".into())),
        Err(fault) => refused(watch.failed(fault)),
    };
    if let Some(events) = events_header(&turn.events().take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    told.name(&mut response);
    response.headers_mut().extend(left_out);
    exchange::answer(turn.exchange(), &mut response);
    Ok(recording::until_end(watch, response))
}

/// The header that names what a service with another API is not sent.
fn left_out(body: &Json, is_anthropics: bool) -> Option<(HeaderName, HeaderValue)> {
    let names = if is_anthropics { Vec::new() } else { anthropic::left_out(body) };
    if names.is_empty() {
        return None;
    }
    tracing::info!("left out of a request for a service with another API: {}", names.join(", "));
    HeaderValue::from_str(&names.join(", ")).ok().map(|names| (LEFT_OUT, names))
}

/// All that clients say in `anthropic-beta`, which may come several times.
fn beta(headers: &HeaderMap) -> Option<String> {
    let all: Vec<&str> =
        headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok()).collect();
    (!all.is_empty()).then(|| all.join(","))
}
