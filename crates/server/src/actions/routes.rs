//! The routes of actions, for callers that may use models.

use super::press::Press;
use super::stream;
use crate::body::parsed;
use crate::handler::post;
use crate::headers::{EVENTS, events_header, named};
use crate::reply::{self, Detail, json_response};
use crate::scope;
use crate::turn::serve::received;
use crate::{auth, recording};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::context::Events;
use valvehouse_core::error::Error;
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;

/// The name of the endpoint in metrics and traces.
pub(crate) const DOOR: &str = "actions";

/// Returns the routes.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/api/chat/actions/{id}", post(press)).route("/v1/api/chat/actions/{id}", post(press))
}

/// Handles `POST /api/chat/actions/{id}`: runs the action of a pressed button.
async fn press(State(app): State<Arc<App>>, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    // Boxed, because the surrounding future is moved from layer to layer.
    named(&snapshot, Box::pin(answer(&app, &snapshot, request)), refused).await
}

fn refused(error: Error) -> Response {
    reply::log(&error);
    Detail(error).into_response()
}

async fn answer(app: &Arc<App>, snapshot: &Snapshot, request: Request) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let (key_user, bytes) = received(app, &parts, body).await?;
    let id = parts.uri.path().rsplit('/').next().unwrap_or("").to_owned();
    let body = parsed(&bytes)?;
    let model = body.text_or_empty("model");
    if !model.is_empty() {
        scope::check_model(app, &parts, snapshot, &model, &body)?;
    }
    let press = Press::read(snapshot, &id, body)?;
    let (events, emitted) = match press.streams {
        true => {
            let asker = auth::asker(app, &parts.headers);
            let (events, emitted) = Events::channel(Some(app.questions.of(&asker)));
            (events, Some(emitted))
        }
        false => (Events::default().holding(app.questions.clone()), None),
    };
    let mut facts = press.facts(app, snapshot, &parts, &key_user);
    let recording = recording::begin(app, DOOR, press.streams, snapshot.generation, &parts, &mut facts);
    let turn = press.turn(app, snapshot, facts, events);
    let work = press.run(turn.clone());
    let answered = match emitted {
        Some(emitted) => stream::streamed(app, turn.clone(), work, emitted).await,
        None => work.await.map(|result| json_response(StatusCode::OK, &result)),
    };
    let mut response = answered.unwrap_or_else(|error| refused(recording.failed(error)));
    if let Some(events) = events_header(&turn.events().take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    Ok(recording::until_end(recording, response))
}
