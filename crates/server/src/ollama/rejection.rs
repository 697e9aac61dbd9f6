//! Errors in Ollama's format: `{"error": text}`.

use crate::reply;
use axum::response::{IntoResponse, Response};
use valvehouse_core::error::Error;
use valvehouse_json::Json;

pub(crate) struct OllamaError(pub(crate) Error);

impl IntoResponse for OllamaError {
    fn into_response(self) -> Response {
        reply::refusal(&self.0, &body(&self.0))
    }
}

/// Returns the body of an error, for a response or the last line of a stream.
pub(super) fn body(error: &Error) -> Json {
    Json::from([("error", reply::body(error).at_path("error.message"))])
}
