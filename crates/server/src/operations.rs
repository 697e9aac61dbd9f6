//! Routes for the operation of a host.

use super::auth;
use crate::api::{Answer, AnyObject, Callers, List, Path, Reply, Routes, get, post};
use crate::body::{BodyLimits, read};
use crate::ready;
use axum::extract::{Request, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::access::OperatorRole::Write;
use valvehouse_host::app::App;
use valvehouse_host::{HostQuestion, SpelledJson};
use valvehouse_json::Json;

/// Returns the routes for liveness, readiness and the answers to questions of plugins.
pub(crate) fn routes() -> Routes {
    Routes::new("Operation", Callers::Everyone)
        .route("/livez", get("Returns 200 while the process responds.", live))
        .route(
            "/readyz",
            get("Returns 200 if requests should be sent here.", ready::ready)
                .returns::<ready::Readiness>()
                .describes(ready::describe_unready)
                .callers(Callers::Visitors),
        )
        .route(
            "/api/v1/questions/{id}",
            post(Write, "Answers the question of a plugin, at any host of the store.", answer)
                .takes::<serde_json::Value>()
                .callers(Callers::Users),
        )
}

/// The status for clients other than browsers.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Status {
    status: bool,
}

/// Handles `GET /` for clients other than browsers.
pub(crate) async fn status() -> Reply<Status> {
    Reply(Status { status: true })
}

/// Handles `GET /livez`, which succeeds while the process responds.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// Handles `GET /api/v1/questions`: lists the approvals that wait for an operator at any host of the store,
/// because their clients cannot answer. The oldest is the first.
pub(crate) async fn questions(State(app): State<Arc<App>>) -> Reply<List<HeldQuestion>> {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    List::reply(app.shared_questions.held().await.into_iter().map(|HostQuestion { host, question: held }| {
        let call = held.question.field("data");
        let text = |name: &str| held.question.text(name).map(String::from);
        HeldQuestion {
            id: held.id,
            r#type: "approval",
            data: HeldCall {
                tool: call.string("tool"),
                arguments: call.field("arguments").into(),
                description: call.text("description").map(String::from),
            },
            by: held.question.string("by"),
            model: text("model"),
            user: text("user"),
            chat_id: held.question.string("chat_id"),
            trace: text("trace"),
            host,
            waited_ms: milliseconds(held.waited),
            left_ms: milliseconds(held.left),
        }
    }))
}

/// An approval that waits for an operator.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HeldQuestion {
    /// The id to use in the answer.
    id: String,
    #[schemars(extend("const" = "approval"))]
    r#type: &'static str,
    data: HeldCall,
    /// The middleware that requests the approval.
    by: String,
    model: Option<String>,
    user: Option<String>,
    chat_id: String,
    trace: Option<String>,
    /// The host that runs the waiting turn.
    host: String,
    waited_ms: u64,
    /// The time until the call is rejected, in milliseconds.
    left_ms: u64,
}

/// The tool call that waits for approval.
#[derive(Serialize, JsonSchema)]
struct HeldCall {
    tool: String,
    #[schemars(with = "AnyObject")]
    arguments: SpelledJson,
    description: Option<String>,
}

/// The maximum size of an answer in bytes. Plugins process every answer of this size, so that no answer disables them.
const MAX_ANSWER: usize = 64 * 1024;

/// The path of a question.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct QuestionPath {
    /// The id of the question.
    id: String,
}

/// The result of an answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AnswerReceipt {
    answered: bool,
}

/// Handles `POST /api/v1/questions/{id}`: answers a plugin's question with JSON. The caller of the turn and
/// operators may answer, at any host of the store.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    Path(path): Path<QuestionPath>,
    request: Request,
) -> Answer<AnswerReceipt> {
    Ok(Reply(answered(&app, &path.id, request).await?))
}

async fn answered(app: &App, id: &str, request: Request) -> Result<AnswerReceipt, Error> {
    let (parts, body) = request.into_parts();
    let asker = match auth::user_of_key(app, &parts) {
        Ok(_) if auth::may_operate_by_key(app, &parts) => None,
        Ok(_) => Some(auth::asker(app, &parts.headers)),
        Err(error) => auth::operator(app, &parts).map(|_| None).map_err(|_| error)?,
    };
    let operator = || match auth::operator_without_key(app, &parts) {
        Some(Err(error)) if auth::is_of_page(&parts.headers) => Err(error),
        operator => Ok(operator.is_some_and(|operator| operator.is_ok())),
    };
    let bytes = read(body, &BodyLimits::of(app)).await?;
    if bytes.len() > MAX_ANSWER {
        return Err(Error::Request {
            message: format!(
                "the answer exceeded its limit of {} KiB; the question still waits for a shorter one",
                MAX_ANSWER / 1024
            ),
            param: None,
            code: Some("answer_too_large"),
            kind: RequestErrorKind::TooLarge,
        });
    }
    let answer = Json::parse(&bytes)
        .map_err(|error| Error::invalid(format!("the answer is not valid JSON: {error}"), None))?;
    let is_here = app.questions.is_open(id);
    let answered = match asker {
        Some(asker) if is_here => {
            app.questions.answer_as(&asker, id, answer.clone())
                || (app.questions.is_open(id) && operator()? && app.questions.answer(id, answer))
        }
        None if is_here => app.questions.answer(id, answer),
        asker => answered_elsewhere(app, id, asker, operator, answer).await?,
    };
    if answered {
        return Ok(AnswerReceipt { answered: true });
    }
    Err(Error::Request {
        message: "unknown question: it was answered, has expired, or does not exist".into(),
        param: None,
        code: Some("question_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}

/// Passes an answer to the host of the question, with the same permissions as here.
async fn answered_elsewhere(
    app: &App,
    id: &str,
    asker: Option<String>,
    operator: impl Fn() -> Result<bool, Error>,
    answer: Json,
) -> Result<bool, Error> {
    let Some(owner) = app.shared_questions.owner(id).await? else { return Ok(false) };
    let by = match asker {
        Some(asker) if asker == owner => Some(asker),
        Some(_) if !operator()? => return Ok(false),
        _ => None,
    };
    app.shared_questions.answer(by.as_deref(), id, answer).await
}
