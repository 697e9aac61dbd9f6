//! Routes for those who run the host.

use super::auth;
use super::reply::{OpenAiError, json_response};
use crate::body::read;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// `GET /`, for whoever is not a browser.
pub(crate) async fn status() -> Response {
    json_response(StatusCode::OK, &Json::from([("status", true.into())]))
}

/// `GET /livez`: the process answers.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `POST /api/v1/questions/{id}`: the answer to a plugin's question, as JSON. Whoever asked for the turn may
/// answer, and operators.
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

async fn answered(app: &App, id: &str, request: Request) -> Result<Json, Fault> {
    let (parts, body) = request.into_parts();
    let asker = match auth::user_of_key(app, &parts) {
        Ok(_) if auth::may_operate_by_key(app, &parts) => None,
        Ok(_) => Some(auth::asker(app, &parts.headers)),
        Err(fault) => auth::operator(app, &parts).map(|_| None).map_err(|_| fault)?,
    };
    let bytes = read(body, app.config.server.max_body_mb).await?;
    let answer = Json::parse(&bytes)
        .map_err(|error| Fault::invalid(format!("the answer is not JSON: {error}"), None))?;
    let answered = match asker {
        Some(asker) => app.questions.answer_as(&asker, id, answer),
        None => app.questions.answer(id, answer),
    };
    if answered {
        return Ok(Json::from([("answered", true.into())]));
    }
    Err(Fault::Request {
        message: "there is no such question: it was answered, its time is up, or it never was asked".into(),
        param: None,
        code: Some("question_not_found"),
        kind: RequestFault::NotFound,
    })
}
