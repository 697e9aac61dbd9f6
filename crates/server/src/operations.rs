//! Routes for the operation of a host.

use super::auth;
use super::reply;
use crate::api::{AnyObject, ApiError, Callers, JsonOf, Path, Reply, Routes, get, post};
use crate::body::{BodyLimits, read};
use crate::ready;
use axum::extract::{Request, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::HostQuestion;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};

/// Returns the routes for liveness, readiness and the answers to questions of plugins.
pub(crate) fn routes() -> Routes {
    Routes::new("Operation", Callers::Everyone)
        .route("/livez", get("Returns 200 while the process responds.", live))
        .route(
            "/readyz",
            get("Returns 200 if requests should be sent here.", ready::ready)
                .returns::<ready::Readiness>()
                .describes(ready::describe_unready)
                .callers(Callers::Operators),
        )
        .route(
            "/api/v1/questions/{id}",
            post("Answers the question of a plugin, at any host of the store.", answer)
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
/// because their clients cannot answer.
pub(crate) async fn questions(State(app): State<Arc<App>>) -> JsonOf<Questions> {
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let held = app.shared_questions.held().await.into_iter().map(|HostQuestion { host, question: held }| {
        let times = [("waited_ms", held.waited), ("left_ms", held.left)];
        let times = times.map(|(key, time)| (key.into(), milliseconds(time).into()));
        let fields = [("id".into(), held.id.into())].into_iter().chain(held.question.entries());
        Json::from(fields.chain([("host".into(), host.into())]).chain(times).collect::<Object>())
    });
    JsonOf::new(reply::list(held))
}

/// The waiting questions, the oldest first.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "`HeldQuestion::entries` writes them; debug builds compare both")]
pub(crate) struct Questions {
    #[schemars(extend("const" = "list"))]
    object: String,
    data: Vec<HeldQuestion>,
}

/// An approval that waits for an operator.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "as above")]
struct HeldQuestion {
    /// The id to use in the answer.
    id: String,
    #[schemars(extend("const" = "approval"))]
    r#type: String,
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
#[derive(JsonSchema)]
#[expect(dead_code, reason = "as above")]
struct HeldCall {
    tool: String,
    arguments: AnyObject,
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
) -> Result<Reply<AnswerReceipt>, ApiError> {
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
