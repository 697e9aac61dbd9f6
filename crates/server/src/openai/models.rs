//! `GET /v1/models`: the configured models and those that providers pass through, in Anthropic's format for
//! its clients.

use super::catalog;
use crate::auth;
use crate::messages::models as anthropic;
use crate::messages::rejection::AnthropicError;
use crate::pipelines;
use crate::reply::{json_response, unlogged};
use crate::scope;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Returns all models.
pub(crate) async fn models(State(app): State<Arc<App>>, parts: Parts) -> Response {
    let is_anthropic_client = anthropic::is_anthropic_client(&parts.headers);
    match auth::user_of_key(&app, &parts) {
        Err(error) if is_anthropic_client => return AnthropicError(error).into_response(),
        Err(error) => return unlogged(&error),
        Ok(_) => {}
    }
    let list = scope::visible(&app, &parts, catalog::list(&app.host.snapshot()).await);
    let query = parts.uri.query();
    if is_anthropic_client {
        return match anthropic::page(&list, query) {
            Ok(page) => json_response(StatusCode::OK, &page),
            Err(error) => AnthropicError(error).into_response(),
        };
    }
    let list = match app.config.is_pipelines_server() || is_open_webui(&parts.headers) {
        true => pipelines::list::list_of(&app, list),
        false => Json::from([("object", "list".into()), ("data", list.into())]),
    };
    if is_codex(query) {
        // This object is not shared, so it accepts any value.
        list.edit("models", Json::array());
    }
    json_response(StatusCode::OK, &list)
}

/// Returns `true` for a request of Open WebUI, which sends its library's name, or the user if it is configured so.
/// Other clients would show filters as models.
fn is_open_webui(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("");
    agent.contains("aiohttp") || headers.keys().any(|name| name.as_str().starts_with("x-openwebui-"))
}

/// Returns `true` for a request of Codex, which sends its version. It reads `models`, with prompts and abilities
/// that a host does not know; with an empty list it uses its own table of models.
fn is_codex(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair.starts_with("client_version=")))
}

/// Returns one model.
pub(crate) async fn model(State(app): State<Arc<App>>, Path(id): Path<String>, parts: Parts) -> Response {
    let is_anthropic_client = anthropic::is_anthropic_client(&parts.headers);
    let found = match auth::user_of_key(&app, &parts) {
        Ok(_) => {
            let snapshot = app.host.snapshot();
            match scope::check_model(&app, &parts, &snapshot, &id, &Json::Null) {
                Ok(()) => find(&snapshot, &id).await,
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    match found {
        Ok(model) if is_anthropic_client => {
            json_response(StatusCode::OK, &valvehouse_wire::messages::models::write(&model))
        }
        Ok(model) => json_response(StatusCode::OK, &model),
        Err(error) if is_anthropic_client => AnthropicError(error).into_response(),
        Err(error) => unlogged(&error),
    }
}

async fn find(snapshot: &Snapshot, id: &str) -> Result<Json, Error> {
    let is_it = |model: &Json| model.text("id").is_some_and(|own| own == id);
    if let Some(model) = catalog::list(snapshot).await.into_iter().find(is_it) {
        return Ok(model);
    }
    let ready = snapshot.ready(id, &[])?;
    Ok(catalog::with_buttons(snapshot, catalog::entry(id, &ready.facts.text_or_empty("provider"))))
}
