//! An error as Anthropic's clients read it: `{"type": "error", "error": {type, message}}`.

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

/// The body of an error, in an answer of its own or in the middle of a stream.
pub(super) fn body(error: &Error) -> Json {
    let told = reply::body(error);
    let body = told.field("error");
    // Of any kind, also one that came after this was written, with all that stands beside it.
    if body.text("type").is_some() && told.text("type").is_some_and(|kind| kind == "error") {
        // Anthropic's own.
        return told;
    }
    let kind = kind_of_status(reply::status(error));
    let error = [("type", kind.into()), ("message", body.field("message"))];
    Json::from([("type", "error".into()), ("error", Json::from(error))])
}
