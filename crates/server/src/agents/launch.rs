//! A run is begun, or gone on with: its answer at once, or streamed and then told how it ended.

use super::runs::agent;
use crate::extract::{Id, object, text};
use crate::headers::{EVENTS, events_header, named, wants_events};
use crate::openai::streaming::{Streaming, Told};
use crate::openai::wire::named_event;
use crate::reply::{json_response, refused};
use crate::{auth, facts, recording};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_agent::{Decision, standing};
use valvehouse_core::chat::{message, request, response};
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// `POST /api/v1/agents/{agent}/runs`
pub(super) async fn begin(State(app): State<Arc<App>>, Id(id): Id, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // One snapshot for the whole run, a streamed answer to its end.
    let snapshot = app.host.snapshot();
    let begun = async {
        let body = asked(&id, object(&app, body).await?)?;
        let ready = agent(&snapshot, &id, &facts::asked_filters(&body)?)?;
        let mut facts = facts::of_chat(&app, &parts, &body, &Json::Null, &ready);
        let (context, told) = (facts::context_of_operator(&app, &facts, &body), Told::default());
        let (host, hears, stream) = (app.clone(), told.hears(), request::wants_stream(&body));
        let watch = recording::begin(&app, "agents", stream, snapshot.generation, &parts.headers, &mut facts);
        let turn = move |events| Turn::new(facts, context, events);
        let work = move |events: Events, stream| async move {
            host.turn(&ready, body, &turn(events), Wish { stream, raw: false }, hears).await
        };
        Ok(recording::ended(watch, go(&app, &parts, told, stream, work).await, refused))
    };
    named(&snapshot, begun, refused).await
}

/// The body of a chat: what it says, and a conversation to say it in.
fn asked(agent: &str, body: Json) -> Result<Json, Fault> {
    let fits = |result: Result<(), valvehouse_json::MisplacedValue>| {
        result.map_err(|error| Fault::invalid(error.to_string(), None))
    };
    if let Some(input) = text(&body, "input")? {
        let given = body.get("messages").unwrap_or_default().items();
        let messages: Vec<Json> = given.into_iter().chain([message::user(input)]).collect();
        fits(body.set("messages", messages))?;
    }
    body.remove("input");
    if let Some(variables) = body.remove("variables").filter(|variables| !variables.is_null()) {
        if variables.as_object().is_none() {
            return Err(Fault::invalid("`variables` must be an object", Some("variables")));
        }
        let metadata = match body.get("metadata") {
            Some(metadata @ Json::Object(_)) => metadata,
            _ => Json::object(),
        };
        fits(metadata.set("variables", variables))?;
        fits(body.set("metadata", metadata))?;
    }
    let chat_id = text(&body, "chat_id")?.filter(|id| !id.is_empty());
    fits(body.set("chat_id", chat_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string())))?;
    fits(body.set("model", agent))?;
    request::check(&body)?;
    Ok(body)
}

/// `POST /api/v1/agents/runs/{run}/resume`
pub(super) async fn resume(State(app): State<Arc<App>>, Id(id): Id, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let snapshot = app.host.snapshot();
    named(&snapshot, resumed(&app, id, &parts, body), refused).await
}

async fn resumed(app: &Arc<App>, id: String, parts: &Parts, body: Body) -> Result<Response, Fault> {
    let body = object(app, body).await?;
    let decision = Decision::from_json(&body)?;
    let hash = text(&body, "hash")?;
    let told = Told::default();
    told.hears()(&app.runs.run(&id).await?);
    let host = app.clone();
    let work = move |events, stream| async move {
        let ended = host.resume(&id, &decision, hash.as_deref(), events, stream).await?;
        Ok(Reply::Answer(ended.reply))
    };
    go(app, parts, told, request::wants_stream(&body), work).await
}

/// Does the work of a run, and tells of it as the client wants it.
async fn go<W>(
    app: &Arc<App>,
    parts: &Parts,
    told: Told,
    stream: bool,
    work: impl FnOnce(Events, Option<tokio::sync::mpsc::Sender<valvehouse_core::provider::Piece>>) -> W,
) -> Result<Response, Fault>
where
    W: Future<Output = Result<Reply, Fault>> + Send + 'static,
{
    // A user's own run may have failed for what only operators read.
    let is_operator = auth::operator(app, parts).is_ok();
    if !stream {
        let events = Events::default();
        let answered = work(events.clone(), None).await;
        let mut response = match answered {
            Ok(reply) => json_response(
                StatusCode::OK,
                &outcome(app, &told, Some(&answer_of(reply)), is_operator).await?,
            ),
            Err(fault) => refused(fault),
        };
        if let Some(events) = events_header(&events.take()) {
            response.headers_mut().insert(EVENTS, events);
        }
        told.name(&mut response);
        return Ok(response);
    }
    let answer = Arc::new(Mutex::new(None));
    let (keep, run) = (answer.clone(), told.clone());
    let working = |events, sender| {
        let work = work(events, Some(sender));
        async move {
            let reply = work.await?;
            if let Reply::Answer(answer) = &reply {
                *keep.lock() = Some(answer.clone());
            }
            Ok(reply)
        }
    };
    let (first, streaming) =
        Streaming::of(app, &parts.headers, wants_events(&parts.headers), told, working).await?;
    let host = app.clone();
    let last = async move {
        let answer = answer.lock().take();
        outcome(&host, &run, answer.as_ref(), is_operator)
            .await
            .map_or_else(|_| Bytes::new(), |ended| named_event("run", &ended))
    };
    Ok(streaming.respond(first, app.config.server.keep_alive_ms, last))
}

fn answer_of(reply: Reply) -> Json {
    match reply {
        Reply::Answer(answer) => answer,
        // Runs are kept, so their answers are read.
        Reply::Raw(_) => Json::Null,
    }
}

/// How a run ended, for now.
async fn outcome(app: &App, told: &Told, answer: Option<&Json>, is_operator: bool) -> Result<Json, Fault> {
    let id = told.run().map(|run| run.id.clone()).unwrap_or_default();
    let run = app.runs.run(&id).await?;
    let text = answer.map(|answer| message::text_of(&response::message_of(answer)));
    // Of its own answer, not of what somebody said to it since.
    let pending =
        answer.map_or_else(|| run.pending.copy(), |answer| answer.get("pending_action").unwrap_or_default());
    let status = match answer {
        Some(_) if pending.is_null() => "done",
        Some(_) => "paused",
        None => standing(&run),
    };
    Ok(Json::from([
        ("run_id", run.id.as_str().into()),
        ("chat_id", run.conversation.as_str().into()),
        ("status", status.into()),
        ("answer", text.into()),
        ("pending_action", pending),
        (
            "error",
            match run.error.as_str() {
                "" => Json::Null,
                error if is_operator => error.into(),
                _ => "the run failed; its operator finds the reason in the log".into(),
            },
        ),
        ("response", answer.cloned().into()),
    ]))
}
