//! Errors in Anthropic's format: `{"type": "error", "error": {type, message}}`.

use crate::reply;
use axum::response::{IntoResponse, Response};
use valvehouse_core::error::Error;
use valvehouse_core::error_code::{self, ErrorCode, anthropic_context_text};
use valvehouse_json::Json;
use valvehouse_wire::messages::kind_of_status;

pub(crate) struct AnthropicError(pub(crate) Error);

impl IntoResponse for AnthropicError {
    fn into_response(self) -> Response {
        reply::refusal(&self.0, &body(&self.0))
    }
}

/// Returns the body of an error, for a response or an event of a stream.
pub(super) fn body(error: &Error) -> Json {
    let mut message = reply::body(error).at_path("error.message");
    if let Error::Answered { body, .. } = error {
        let own = error_code::message_of(body);
        let text = (error.code() == Some(ErrorCode::ContextLength)).then(|| anthropic_context_text(body));
        let is_own = body.at_path("error.type").as_str().is_some() && body.is_text("type", "error");
        // The provider's error is passed on with all its fields, whatever its type.
        if is_own && (text.is_none() || text == own) {
            return body.clone();
        }
        message = text.map_or(message, Json::from);
    }
    let kind = kind_of_status(error.status());
    let error = [("type", kind.into()), ("message", message)];
    Json::from([("type", "error".into()), ("error", Json::from(error))])
}
