//! Answers to requests that no route takes.

use crate::messages::models::speaks_anthropic;
use crate::messages::refusal::AnthropicError;
use crate::reply::OpenAiError;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use valvehouse_core::fault::{Fault, RequestFault};

/// No such route.
pub(crate) async fn not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let hint = if path.starts_with("/v1/") { "; /openapi.json lists the routes" } else { "" };
    let fault = Fault::Request {
        message: format!("there is no {method} {path}{hint}"),
        param: None,
        code: Some("not_found"),
        kind: RequestFault::NotFound,
    };
    in_protocol(&uri, &headers, fault)
}

/// A route that takes another method.
pub(crate) async fn wrong_method(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let fault = Fault::Request {
        message: format!("{} does not take {method}", uri.path()),
        param: None,
        code: Some("method_not_allowed"),
        kind: RequestFault::Method,
    };
    in_protocol(&uri, &headers, fault)
}

/// A fault in the words of the protocol that its caller speaks: Anthropic's clients name its version, and ask
/// below its route.
fn in_protocol(uri: &Uri, headers: &HeaderMap, fault: Fault) -> Response {
    match uri.path().starts_with("/v1/messages") || speaks_anthropic(headers) {
        true => AnthropicError(fault).into_response(),
        false => OpenAiError(fault).into_response(),
    }
}
