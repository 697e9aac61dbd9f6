//! `POST /api/v1/try`: runs a chat or presses a button, and returns the steps of every hook or streams the answer.

use crate::actions::Press;
use crate::api::{AnyObject, CheckedBody, JsonOf, Reply};
use crate::openai::chat::Completion;
use crate::reply::OpenAiError;
use crate::turn::answer_bytes::EventForm;
use crate::turn::endpoint::Call;
use crate::turn::serve::{EventReceiver, Way, options, respond};
use crate::{facts, recording, reply};
use axum::extract::State;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use valvehouse_core::chat::{ChatRequest, message};
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::RunOptions;
use valvehouse_core::trace::TraceGuard;
use valvehouse_host::SpelledJson;
use valvehouse_host::app::App;
use valvehouse_host::traces::{self, WholeTrace};
use valvehouse_json::Json;

/// A chat request with any fields of its protocol.
#[derive(JsonSchema)]
#[schemars(example = serde_json::json!({"model": "demo", "text": "hello"}))]
#[expect(
    dead_code,
    reason = "it describes a body that stays JSON: all of its other fields go to the model, too"
)]
pub(super) struct DryRunRequest {
    model: String,
    messages: Option<Vec<AnyObject>>,
    /// A user message that is appended to the messages.
    text: Option<String>,
    /// The button to press instead of sending a chat.
    action: Option<String>,
    stream: Option<bool>,
    /// The toggle filters to run.
    filter_ids: Option<Vec<String>>,
    user: Option<DryRunUser>,
    chat_id: Option<String>,
}

/// A user: an id, or an object with an `id`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "as above")]
enum DryRunUser {
    Id(String),
    Known { id: String },
}

/// The result of a dry run.
#[derive(Serialize, JsonSchema)]
pub(super) struct DryRun {
    /// The HTTP status that a client would have received.
    status: u16,
    /// The answer of the chat, or null.
    answer: SpelledJson,
    /// The error, or null.
    error: SpelledJson,
    trace: JsonOf<WholeTrace>,
}

/// Handles `POST /api/v1/try`.
pub(super) async fn run(
    State(app): State<Arc<App>>,
    parts: Parts,
    body: CheckedBody<DryRunRequest>,
) -> Result<Response, OpenAiError> {
    match body.0.text("action") {
        Some(button) => Ok(Reply(pressed(&app, &parts, &button, body.0).await?).into_response()),
        None => Ok(tried(&app, &parts, body.0).await?),
    }
}

/// Returns `true` if a client reads a streamed answer as it comes.
fn follows(parts: &Parts) -> bool {
    let accepted = parts.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.into_iter().any(|value| value.contains("text/event-stream"))
}

/// Presses a button. Nobody can answer questions; emitted events are in the trace.
async fn pressed(app: &Arc<App>, parts: &Parts, button: &str, body: Json) -> Result<DryRun, Error> {
    body.remove("action");
    with_text(&body)?;
    let user = user(&body)?;
    let snapshot = app.host.snapshot();
    let press = Press::read(&snapshot, button, body)?;
    let mut facts = press.facts(app, &snapshot, parts, &user);
    let watch = recording::recorded(app, "try", false, snapshot.generation, true, &mut facts);
    let turn = press.turn(app, &snapshot, facts, Events::default());
    let answer = press.run(turn).await;
    Ok(outcome(app, watch, answer))
}

/// Returns the answer or the error, with all steps.
fn outcome(app: &App, mut watch: TraceGuard, answer: Result<Json, Error>) -> DryRun {
    let (status, answer, error) = match answer {
        Ok(answer) => (200, answer, Json::Null),
        Err(error) => {
            let (status, body) = (error.status(), reply::body(&error).field("error"));
            watch.failed(error);
            (status, Json::Null, body)
        }
    };
    let trace = watch.trace().clone();
    watch.answered(status);
    watch.done();
    DryRun {
        status,
        answer: answer.into(),
        error: error.into(),
        trace: traces::detail(&app.host, &trace).into(),
    }
}

async fn tried(app: &Arc<App>, parts: &Parts, body: Json) -> Result<Response, Error> {
    with_text(&body)?;
    let chat = ChatRequest::new(body)?;
    let body = chat.body().clone();
    let user = user(&body)?;
    let snapshot = app.host.snapshot();
    let model = chat.model();
    let ready = snapshot.ready_for(&model, &facts::requested_filters(&body)?, &body)?;
    let stream = chat.is_streamed();
    let call = Call::new(app, &snapshot, parts);
    let mut facts = facts::of_chat(app, parts, &body, &user, &ready, call.memory.clone());
    let context = facts::context(app, &facts, &body);
    let watch = recording::recorded(app, "try", stream, snapshot.generation, true, &mut facts);
    if stream && follows(parts) {
        let options = options(&call, facts, context, stream, EventReceiver::Shows).calls_last(true);
        let answer = app.run(&ready, chat, options, call.run.on_begin());
        let way = Way { stream, is_held: ready.kernel.settings().hold, form: EventForm::Own };
        let response = respond(&call, Completion::default(), way, Some(&watch), answer).await;
        return Ok(recording::until_end(watch, recording::held_until_sent(response, &call.memory).await));
    }
    let turn = Turn::new(facts, context, Events::default());
    let options = RunOptions::new(turn).streamed(stream);
    let answer = app.run(&ready, chat, options, |_| {}).answer().await;
    let run = outcome(app, watch, answer.map(|answer| answer.reply));
    Ok(Reply(run).into_response())
}

/// Appends `text` to the messages of a body as a user message.
fn with_text(body: &Json) -> Result<(), Error> {
    if let Some(text) = body.text("text") {
        let given = body.list("messages");
        let messages: Vec<Json> = given.into_iter().chain([message::user(text)]).collect();
        body.set("messages", messages).map_err(|error| Error::invalid(error.to_string(), None))?;
    }
    body.remove("text");
    Ok(())
}

/// Returns the user of a dry run: an id, or an object with an id and further fields. Providers only receive
/// the id.
fn user(body: &Json) -> Result<Json, Error> {
    let user = match body.get("user") {
        None | Some(Json::Null) => return Ok(Json::object()),
        Some(Json::Text(id)) => Json::from([("id", id.into())]),
        Some(user @ Json::Object(_)) if user.text("id").is_some() => user.deep_clone(),
        Some(_) => {
            let wrong = "`user` must be an id, or an object with an `id`";
            return Err(Error::invalid(wrong, Some("user")));
        }
    };
    // A text fits into an object that is not shared.
    body.edit("user", user.field("id"));
    Ok(user)
}
