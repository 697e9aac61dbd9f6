//! Routes for those who run the host.

use super::reply::{OpenAiError, json_response};
use crate::app::App;
use crate::fault::{Fault, RequestFault};
use crate::json::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// `GET /`
pub(crate) async fn status() -> Response {
    json_response(StatusCode::OK, &Json::from([("status", true.into())]))
}

/// `GET /livez`: the process answers.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: a whole generation is loaded; what does not stand as it should is named.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let snapshot = app.host.snapshot();
    let plugins = snapshot.plugins.values().map(|plugin| {
        let id: &str = &plugin.id;
        (id.into(), Json::from(plugin.word()))
    });
    let plugins: crate::json::Object = plugins.collect();
    let providers = snapshot.plan().providers.iter().map(|plan| {
        let word = if plan.provider.rests().is_some() { "resting" } else { "used" };
        (plan.provider.name().into(), Json::from(word))
    });
    let providers: crate::json::Object = providers.collect();
    let ready = Json::from([
        ("ready", true.into()),
        ("generation", snapshot.generation.into()),
        ("plugins", plugins.into()),
        ("providers", providers.into()),
    ]);
    json_response(StatusCode::OK, &ready)
}

/// `POST /api/v1/questions/{id}`: the answer to a plugin's question, as JSON.
pub(crate) async fn answer(State(app): State<Arc<App>>, Path(id): Path<String>, body: Bytes) -> Response {
    let answer = match Json::parse(&body) {
        Ok(answer) => answer,
        Err(error) => {
            return OpenAiError(Fault::invalid(format!("the answer is no JSON: {error}"), None))
                .into_response();
        }
    };
    if app.questions.answer(&id, answer) {
        return json_response(StatusCode::OK, &Json::from([("answered", true.into())]));
    }
    OpenAiError(Fault::Request {
        message: "there is no such question: it was answered, its time is up, or it never was asked".into(),
        param: None,
        code: Some("question_not_found"),
        kind: RequestFault::NotFound,
    })
    .into_response()
}
