//! Token counts of prompts, from the provider if it counts them, or estimated here.

use super::rejection::AnthropicError;
use crate::body::parsed;
use crate::headers::named;
use crate::passthrough;
use crate::reply::json_response;
use crate::scope;
use crate::turn::serve::received;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::chat::event::thinking_of;
use valvehouse_core::chat::plain;
use valvehouse_core::error::Error;
use valvehouse_core::provider::COUNT_TOKENS;
use valvehouse_host::app::App;
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;
use valvehouse_tokens::{BESIDE, Counter};
use valvehouse_wire::messages::request;

/// Returns `true` if the provider of a model counts tokens, which providers with Anthropic's API do.
pub(super) fn has_counter(ready: &Ready, snapshot: &Snapshot) -> bool {
    let name = ready.kernel.provider().map(|provider| provider.name());
    let mut plans = snapshot.plan().providers.iter();
    plans.any(|plan| Some(plan.provider.name()) == name && plan.provider.has_route(COUNT_TOKENS))
}

/// Handles `POST /v1/messages/count_tokens`.
pub(crate) async fn count_tokens(State(app): State<Arc<App>>, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    let counted = async {
        let (mut parts, body) = request.into_parts();
        let (_, bytes) = received(&app, &parts, body).await?;
        let chat_request = parsed(&bytes)?;
        let model = chat_request.text_or_empty("model");
        scope::check_model(&app, &parts, &snapshot, &model, &chat_request)?;
        let ready = snapshot.ready(&model, &[])?;
        // Filters do not run on this route, so the prompts of guarded models stay here.
        if has_counter(&ready, &snapshot) && ready.kernel.chain().guards().next().is_none() {
            // The decoded body no longer matches these headers.
            parts.headers.remove(header::CONTENT_ENCODING);
            parts.headers.remove(header::CONTENT_LENGTH);
            let request = Request::from_parts(parts, Body::from(bytes));
            return Ok(passthrough::through(app.clone(), request, COUNT_TOKENS.to_owned(), None).await);
        }
        // Only a request for an answer needs a limit.
        if chat_request.get("max_tokens").is_none() {
            chat_request.set("max_tokens", 1_i64).map_err(|error| Error::Host(error.to_string()))?;
        }
        let chat = request::read(&chat_request, None)?;
        let tokens = estimate(chat).await?;
        Ok(json_response(StatusCode::OK, &Json::from([("input_tokens", tokens.into())])))
    };
    named(&snapshot, counted, |error| {
        crate::reply::log(&error);
        AnthropicError(error).into_response()
    })
    .await
}

/// Estimates the tokens of a chat's prompt: its messages and the descriptions of its tools.
///
/// # Errors
/// Returns a host error if the counting task fails.
pub(crate) async fn estimate(chat: Json) -> Result<usize, Error> {
    let counting = tokio::task::spawn_blocking(move || {
        let counter = Counter::of(&chat.text_or_empty("model")).with_media();
        // The thinking of earlier rounds is not sent again.
        let messages = chat.list("messages");
        let round = messages.iter().rev().take_while(|message| !message.is_text("role", "user"));
        let thinking: usize = round.filter_map(thinking_of).map(|text| counter.text(&text)).sum();
        let chat = plain(&chat);
        let messages = chat.list("messages");
        let message_tokens: usize = messages.iter().map(|message| counter.message(message)).sum();
        let tools = chat.get("tools").filter(|tools| !tools.is_empty());
        message_tokens + thinking + BESIDE + tools.map_or(0, |tools| counter.text(&tools.to_string()))
    });
    counting.await.map_err(|error| Error::Host(format!("cannot count tokens: {error}")))
}
