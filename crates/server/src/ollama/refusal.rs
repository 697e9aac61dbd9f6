//! A fault as Ollama's clients read it: `{"error": text}`.

use crate::reply::{self, json_response};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use valvehouse_core::fault::Fault;
use valvehouse_json::Json;

pub(crate) struct OllamaError(pub(crate) Fault);

impl IntoResponse for OllamaError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(reply::status(&self.0)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json_response(status, &body(&self.0));
        if let Some(after) = reply::retry_after(&self.0) {
            response.headers_mut().insert(header::RETRY_AFTER, after);
        }
        response
    }
}

/// The fault in an answer of its own, or as the last line of a stream.
pub(super) fn body(fault: &Fault) -> Json {
    Json::from([("error", reply::body(fault).at_path("error.message"))])
}
