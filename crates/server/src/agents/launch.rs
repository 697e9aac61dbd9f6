//! Starts or resumes a run. The answer is complete, or a stream whose last event is the outcome.

use super::runs::{AgentPath, RunPath, agent};
use crate::api::{AnyObject, CheckedBody, Path, fits};
use crate::body::{BodyLimits, read_plain};
use crate::extract::object_of;
use crate::headers::{named, wants_events};
use crate::openai::chat::{encode_chunk, encode_end};
use crate::reply::{refused, unlogged};
use crate::turn::answer_bytes::EventForm;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint, RunSlot};
use crate::turn::events::named_event;
use crate::turn::serve::{EventReceiver, Way, options, respond, serve_turn};
use crate::{auth, exchange, facts};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use std::sync::Arc;
use valvehouse_agent::{Decision, standing};
use valvehouse_core::chat::{ChatRequest, message, request, response};
use valvehouse_core::context::{Context, TurnFacts};
use valvehouse_core::described;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;
use valvehouse_store::Run;

/// A chat request without a model. It may contain any other field of its protocol.
#[derive(JsonSchema)]
#[schemars(example = serde_json::json!({"input": "hello", "chat_id": "chat-1"}))]
#[expect(
    dead_code,
    reason = "it describes a body that stays JSON: all of its other fields go to the model, too"
)]
pub(super) struct BeginRun {
    /// A user message that is appended to the messages.
    input: Option<String>,
    messages: Option<Vec<AnyObject>>,
    /// The id of the conversation. Without it, a new conversation starts.
    chat_id: Option<String>,
    /// The variables of the turn.
    variables: Option<AnyObject>,
    stream: Option<bool>,
}

/// Handles `POST /api/v1/agents/{agent}/runs`.
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    Path(AgentPath { agent: id }): Path<AgentPath>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let snapshot = app.host.snapshot();
    let begun = async {
        let bytes = read_plain(&parts.headers, body, &BodyLimits::of(&app)).await?;
        serve_turn(&Runs { agent: id }, &Call::new(&app, &snapshot, &parts), &bytes, &Json::Null).await
    };
    named(&snapshot, Box::pin(begun), refused).await
}

/// The endpoint that starts runs of an agent.
struct Runs {
    agent: String,
}

impl Endpoint for Runs {
    const NAME: &'static str = "agents";
    type Encoder = Outcome;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Outcome), Error> {
        Ok((ChatRequest::new(chat_body(&self.agent, object_of(bytes)?)?)?, Outcome::of(call)))
    }

    fn ready(&self, call: &Call<'_>, chat: &ChatRequest) -> Result<Ready, Error> {
        agent(call.snapshot, &self.agent, chat.body())
    }

    fn context(&self, call: &Call<'_>, chat: &ChatRequest, _: &mut Ready, facts: &mut TurnFacts) -> Context {
        facts::context_of_operator(call.app, facts, chat.body())
    }

    fn takes_events(&self, call: &Call<'_>, _: &ChatRequest) -> bool {
        wants_events(&call.parts.headers)
    }
}

/// Writes the outcome of a run, after its chunks if it is streamed.
struct Outcome {
    app: Arc<App>,
    run: RunSlot,
    /// Set if the caller may read the reason for a failure.
    is_operator: bool,
}

impl Outcome {
    fn of(call: &Call<'_>) -> Self {
        let is_operator = auth::operator(call.app, call.parts).is_ok();
        Self { app: call.app.clone(), run: call.run.clone(), is_operator }
    }
}

impl Encoder for Outcome {
    async fn encode(self, answer: Json) -> Result<Json, Error> {
        outcome(&self.app, &self.run, Some(&answer), self.is_operator).await
    }

    fn encode_chunk(&mut self, chunk: Chunk) -> Bytes {
        encode_chunk(&chunk)
    }

    fn encode_end(self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes> {
        Box::pin(async move {
            let outcome = outcome(&self.app, &self.run, end.as_ref().ok(), self.is_operator).await;
            match outcome {
                Ok(ended) => encode_end(end.as_ref().err(), &named_event("run", &ended)),
                // The turn failed before its run started, or the store is failing.
                Err(error) => encode_end(Some(end.as_ref().err().unwrap_or(&error)), b""),
            }
        })
    }

    fn encode_error(error: Error) -> Response {
        unlogged(&error)
    }
}

/// Converts a request body to a chat request with messages and a conversation.
fn chat_body(agent: &str, body: Json) -> Result<Json, Error> {
    fits::<BeginRun>(&body, "request body")?;
    let fits = |result: Result<(), valvehouse_json::MisplacedValue>| {
        result.map_err(|error| Error::invalid(error.to_string(), None))
    };
    if let Some(input) = body.text("input") {
        let given = body.list("messages");
        let messages: Vec<Json> = given.into_iter().chain([message::user(input)]).collect();
        fits(body.set("messages", messages))?;
    }
    body.remove("input");
    if let Some(variables) = body.remove("variables").filter(|variables| !variables.is_null()) {
        let metadata = match body.get("metadata") {
            Some(metadata @ Json::Object(_)) => metadata,
            _ => Json::object(),
        };
        fits(metadata.set("variables", variables))?;
        fits(body.set("metadata", metadata))?;
    }
    let chat_id = body.text("chat_id").filter(|id| !id.is_empty()).map(String::from);
    fits(body.set("chat_id", chat_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string())))?;
    fits(body.set("model", agent))?;
    Ok(body)
}

/// The decision on a run that waits, failed or was interrupted.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({"decision": "approve"}))]
#[expect(dead_code, reason = "`Decision::from_json` reads it")]
pub(super) struct Resume {
    /// `approve`, `reject`, `answer`, `retry` or `continue` (default).
    decision: Option<String>,
    /// The reason for a rejection.
    reason: Option<String>,
    /// The answer to a question.
    answer: Option<serde_json::Value>,
    /// New arguments for the approved call.
    arguments: Option<AnyObject>,
    /// The hash of the pending action that the decision is for. If the action has changed, the decision is
    /// rejected.
    hash: Option<String>,
    stream: Option<bool>,
}

/// Handles `POST /api/v1/agents/runs/{run}/resume`.
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Path(RunPath { run: id }): Path<RunPath>,
    parts: Parts,
    body: CheckedBody<Resume>,
) -> Response {
    let snapshot = app.host.snapshot();
    named(&snapshot, resumed(&app, &snapshot, id, &parts, &body.0), refused).await
}

async fn resumed(
    app: &Arc<App>,
    snapshot: &Snapshot,
    id: String,
    parts: &Parts,
    body: &Json,
) -> Result<Response, Error> {
    let decision = Decision::from_json(body)?;
    let hash = body.text("hash").map(String::from);
    let call = Call::new(app, snapshot, parts);
    call.run.on_begin()(&app.runs.run(&id).await?);
    let stream = request::wants_stream(body);
    let receiver = match stream && wants_events(&parts.headers) {
        true => EventReceiver::Answers,
        false => EventReceiver::Collects,
    };
    let facts = TurnFacts {
        exchange: Some(Arc::new(exchange::of(app, parts, call.memory.clone()))),
        ..TurnFacts::default()
    };
    let answer = app.resume(id, decision, hash, options(&call, facts, Context::default(), stream, receiver));
    let way = Way { stream, is_held: false, form: EventForm::Own };
    Ok(respond(&call, Outcome::of(&call), way, None, answer).await)
}

/// Returns the current outcome of a run.
async fn outcome(app: &App, run: &RunSlot, answer: Option<&Json>, is_operator: bool) -> Result<Json, Error> {
    let Some(begun) = run.get() else {
        return Err(Error::Host(
            "cannot show the run of an agent: it answered before its run started".into(),
        ));
    };
    let run = app.runs.run(&begun.id).await?;
    Ok(answered(&run, answer, is_operator))
}

described! {
    /// A run with its answer.
    pub(super) struct RunAnswer as "Outcome";
    fn answered(run: &Run, answer: Option<&Json>, is_operator: bool) with {
        // The pending action is that of this answer, because the run may have continued since.
        let pending = answer.map_or_else(|| run.pending.deep_clone(), |answer| answer.field("pending_action"));
    } {
        run_id: String = run.id.as_str(),
        chat_id: String = run.conversation.as_str(),
        status: String = match answer {
            Some(_) if pending.is_null() => "done",
            Some(_) => "paused",
            None => standing(run),
        },
        /// The text of the answer, or null.
        answer: Option<String> = answer.map(|answer| message::text_of(&response::message_of(answer))),
        /// The question that the run waits for, or null.
        pending_action: serde_json::Value = pending,
        error: Option<String> = match run.error.as_str() {
            "" => None,
            error if is_operator => Some(error),
            _ => Some("the run failed; the host's log has the reason"),
        },
        /// The answer as a chat completion, or null.
        response: serde_json::Value = answer.cloned(),
    }
}
