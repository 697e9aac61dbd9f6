//! Errors in Anthropic's format: `{"type": "error", "error": {type, message}}`.

use crate::reply;
use axum::response::{IntoResponse, Response};
use valvehouse_core::anthropic::kind_of_status;
use valvehouse_core::error::Error;
use valvehouse_json::Json;

pub(crate) struct AnthropicError(pub(crate) Error);

impl IntoResponse for AnthropicError {
    fn into_response(self) -> Response {
        reply::refusal(&self.0, &body(&self.0))
    }
}

/// Returns the body of an error, for a response or an event of a stream.
pub(super) fn body(error: &Error) -> Json {
    let reply = reply::body(error);
    let body = reply.field("error");
    // The provider's error is passed on with all its fields, whatever its type.
    if body.text("type").is_some() && reply.text("type").is_some_and(|kind| kind == "error") {
        return reply;
    }
    let kind = kind_of_status(error.status());
    let error = [("type", kind.into()), ("message", body.field("message"))];
    Json::from([("type", "error".into()), ("error", Json::from(error))])
}
