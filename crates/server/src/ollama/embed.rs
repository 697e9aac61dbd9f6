//! Embeddings over Ollama's API: requests of `/v1/embeddings`, with the filters of that route.

use super::rejection::OllamaError;
use crate::body::parsed_within;
use crate::passthrough;
use crate::passthrough::embeddings::{unreadable, whole};
use crate::reply::json_response;
use crate::scope;
use crate::turn::serve::received;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Instant;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};

/// The route of the requests, below `/v1`.
const ROUTE: &str = "embeddings";

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `/api/embed`: `input` is a text or a list of texts.
    Embed,
    /// `/api/embeddings`, the older route: `prompt` is one text.
    Embeddings,
}

/// Handles `POST /api/embed`.
pub(super) async fn embed(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(app, request, Form::Embed).await.unwrap_or_else(|error| OllamaError(error).into_response())
}

/// Handles `POST /api/embeddings`.
pub(super) async fn embeddings(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(app, request, Form::Embeddings).await.unwrap_or_else(|error| OllamaError(error).into_response())
}

async fn answer(app: Arc<App>, request: Request, form: Form) -> Result<Response, Error> {
    let began = Instant::now();
    let memory = app.memory.share();
    let (parts, body) = request.into_parts();
    let (_, bytes) = received(&app, &parts, body).await?;
    let sent = embeddings_request(&parsed_within(&bytes, &memory)?, form)?;
    let model = sent.field("model");
    if sent.field("input").is_empty() {
        let snapshot = app.host.snapshot();
        scope::check_model(&app, &parts, &snapshot, model.str_or_empty(), &Json::Null)?;
        snapshot.ready(model.str_or_empty(), &[])?;
        let nothing = Json::from([("data", Json::array())]);
        return Ok(json_response(StatusCode::OK, &embedded(&nothing, &model, form, began)?));
    }
    let response = passthrough::through(app.clone(), as_request(parts, &sent)?, ROUTE.into(), None).await;
    let (mut head, body) = response.into_parts();
    let body = whole(&app, body).await?;
    let answer = Json::parse(&body);
    let converted = match (head.status.is_success(), answer) {
        (true, Ok(answer)) => embedded(&answer, &model, form, began)?,
        (true, Err(error)) => return Err(unreadable(&error.to_string())),
        (false, answer) => {
            let answer = answer.unwrap_or(Json::Null);
            let message = answer.at_path("error.message").as_str().map(str::to_owned);
            let message = message.or_else(|| answer.text("error").map(String::from));
            let message = message.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
            Json::from([("error", message.into())])
        }
    };
    let converted = json_response(head.status, &converted);
    for name in [CONTENT_LENGTH, CONTENT_ENCODING] {
        head.headers.remove(name);
    }
    head.headers.extend(converted.headers().clone());
    Ok(Response::from_parts(head, converted.into_body()))
}

/// Converts a request to one of `/v1/embeddings`. Its input is empty if the request only loads the model.
///
/// # Errors
/// Returns a request error that names the invalid field.
fn embeddings_request(sent: &Json, form: Form) -> Result<Json, Error> {
    let Some(model) = sent.text("model").filter(|model| !model.is_empty()) else {
        return Err(Error::invalid("missing `model`: name the model", Some("model")));
    };
    let (field, expected) = match form {
        Form::Embed => ("input", "a text or a list of texts"),
        Form::Embeddings => ("prompt", "a text"),
    };
    let input = sent.field(field);
    let is_text = |value: &Json| value.as_str().is_some();
    let is_valid = match &input {
        Json::Null | Json::Text(_) => true,
        Json::Array(texts) => form == Form::Embed && texts.items().iter().all(is_text),
        _ => false,
    };
    if !is_valid {
        let message = format!("invalid `{field}`: expected {expected}, got {}", input.kind());
        return Err(Error::invalid(message, Some(field)));
    }
    let body = [("model", model.into()), ("input", input), ("encoding_format", "float".into())];
    let dimensions = sent.given("dimensions").map(|dimensions| ("dimensions", dimensions));
    let fields = body.into_iter().chain(dimensions).map(|(key, value)| (key.into(), value));
    Ok(fields.collect::<Object>().into())
}

/// Returns a request with this body and the head of another one.
fn as_request(mut parts: Parts, body: &Json) -> Result<Request, Error> {
    let bytes = body.encode_raw().map_err(|error| Error::invalid(error.to_string(), None))?;
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Converts an answer of `/v1/embeddings`.
///
/// # Errors
/// Returns an error if the answer contains no lists of numbers.
fn embedded(answer: &Json, model: &Json, form: Form, began: Instant) -> Result<Json, Error> {
    let mut data = answer.list("data");
    data.sort_by_key(|one| one.integer("index"));
    let vectors: Vec<Json> = data.iter().map(|one| one.field("embedding")).collect();
    if vectors.iter().any(|vector| vector.as_array().is_none()) {
        return Err(unreadable("it contains no lists of numbers"));
    }
    if form == Form::Embeddings {
        let vector = vectors.into_iter().next().unwrap_or_else(Json::array);
        return Ok(Json::from([("embedding", vector)]));
    }
    let took = i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX);
    let count = answer.at_path("usage.prompt_tokens").as_i64().unwrap_or(0);
    Ok(Json::from([
        ("model", model.clone()),
        ("embeddings", vectors.into()),
        ("total_duration", took.into()),
        ("load_duration", 0_i64.into()),
        ("prompt_eval_count", count.into()),
    ]))
}
