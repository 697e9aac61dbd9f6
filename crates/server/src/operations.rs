//! Routes for those who run the host.

use super::auth;
use super::reply::{self, OpenAiError, json_response};
use crate::body::read;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::HostQuestion;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};

/// `GET /`, for clients other than browsers.
pub(crate) async fn status() -> Response {
    json_response(StatusCode::OK, &Json::from([("status", true.into())]))
}

/// `GET /livez`: the process answers.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `GET /api/v1/questions`: the approvals that wait for an operator at any host of the store, since their clients cannot be
/// asked.
pub(crate) async fn questions(State(app): State<Arc<App>>) -> Response {
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let held = app.shared_questions.held().await.into_iter().map(|HostQuestion { host, question: held }| {
        let times = [("waited_ms", held.waited), ("left_ms", held.left)];
        let times = times.map(|(key, time)| (key.into(), milliseconds(time).into()));
        let fields = [("id".into(), held.id.into())].into_iter().chain(held.question.entries());
        Json::from(fields.chain([("host".into(), host.into())]).chain(times).collect::<Object>())
    });
    json_response(StatusCode::OK, &reply::list(held))
}

/// `POST /api/v1/questions/{id}`: the answer to a plugin's question, as JSON. Whoever asked for the turn may
/// answer, and operators, at any host of the store.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    match answered(&app, &id, request).await {
        Ok(told) => json_response(StatusCode::OK, &told),
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

async fn answered(app: &App, id: &str, request: Request) -> Result<Json, Error> {
    let (parts, body) = request.into_parts();
    let asker = match auth::user_of_key(app, &parts) {
        Ok(_) if auth::may_operate_by_key(app, &parts) => None,
        Ok(_) => Some(auth::asker(app, &parts.headers)),
        Err(fault) => auth::operator(app, &parts).map(|_| None).map_err(|_| fault)?,
    };
    let operator = || match auth::operator_without_key(app, &parts) {
        Some(Err(fault)) if auth::is_of_page(&parts.headers) => Err(fault),
        operator => Ok(operator.is_some_and(|operator| operator.is_ok())),
    };
    let bytes = read(body, app.config.server.max_body_mb).await?;
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
        return Ok(Json::from([("answered", true.into())]));
    }
    Err(Error::Request {
        message: "unknown question: it was answered, has expired, or does not exist".into(),
        param: None,
        code: Some("question_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}

/// Hands an answer in at the host that asked, with the same rights as here.
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
