//! `POST /v1/messages`: the same turn as at every other door, asked for and answered in Anthropic's
//! words.

use super::refusal::AnthropicError;
use super::stream::streamed;
use crate::body::{parsed, read, unpacked};
use crate::headers::{EVENTS, events_header, named};
use crate::openai::streaming::Told;
use crate::reply::json_response;
use crate::{auth, facts, first_choice, recording};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::anthropic;
use valvehouse_core::chat::request;
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;

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
    let watch = recording::begin(&app, "messages", stream, snapshot.generation, &parts.headers, &mut facts);
    if stream {
        let streamed = streamed(&app, ready, body, facts, context, &parts.headers).await;
        return Ok(recording::ended(watch, streamed, refused));
    }
    let turn = Turn::new(facts, context, Events::default());
    // Other services' bytes would not be understood here.
    let (wish, told) = (Wish { stream: None, raw: false }, Told::default());
    let reply = app.turn(&ready, body, &turn, wish, told.hears()).await;
    let mut response = match reply {
        Ok(Reply::Answer(answer)) => match first_choice::check(&answer) {
            Ok(()) => json_response(StatusCode::OK, &anthropic::message(&answer)),
            Err(fault) => refused(watch.failed(fault)),
        },
        Ok(Reply::Raw(_)) => refused(Fault::Host("an answer came in another service's words".into())),
        Err(fault) => refused(watch.failed(fault)),
    };
    if let Some(events) = events_header(&turn.events().take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    told.name(&mut response);
    Ok(recording::until_end(watch, response))
}

/// All that clients say in `anthropic-beta`, which may come several times.
fn beta(headers: &HeaderMap) -> Option<String> {
    let all: Vec<&str> =
        headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok()).collect();
    (!all.is_empty()).then(|| all.join(","))
}
