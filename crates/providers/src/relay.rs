//! Passthrough of routes other than chats: bytes are unchanged in both directions.

use super::mask::hidden;
use super::service::Service;
use url::Url;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{PassthroughBody, RelayRequest, RelayResponse};
use valvehouse_grants::ROUTES;
use valvehouse_net::{HttpCall, Response};

/// The first path segment of the routes that only Anthropic's API has.
const MESSAGES: &str = "messages";

/// The headers that describe the body of a response.
const DESCRIBES: [&str; 6] =
    ["content-type", "content-disposition", "content-language", "cache-control", "etag", "last-modified"];

/// Returns `true` if a service with OpenAI's API may have this route.
pub(super) fn is_openai(path: &str) -> bool {
    let first = path.split_once('/').map_or(path, |(first, _)| first);
    first != MESSAGES && ROUTES.contains(&first)
}

/// Returns `true` if a service with Anthropic's API may have this route.
pub(super) fn is_anthropic(path: &str) -> bool {
    let mut steps = path.split('/');
    match (steps.next(), steps.next()) {
        (Some(MESSAGES), Some("count_tokens" | "batches")) => true,
        (first, _) => first == Some("files"),
    }
}

/// Returns the HTTP call for a request.
pub(super) fn call(to: Url, request: RelayRequest<'_>) -> HttpCall {
    let call = HttpCall::of(request.method, to);
    let call = request.headers.iter().fold(call, |call, (name, value)| call.header(name, value));
    match request.body {
        PassthroughBody::Whole(bytes) => call.body(bytes),
        PassthroughBody::Stream(bytes) => call.streaming(bytes),
    }
}

/// Converts a successful response. If the service repeats its key, the key is masked.
pub(super) fn relayed(response: Response, service: &Service) -> Result<RelayResponse, Error> {
    let origin = &service.origin;
    let status = response.status;
    let headers =
        response.headers().filter(|(name, value)| DESCRIBES.contains(name) && service.may_show(name, value));
    let headers = headers.map(|(name, value)| (name.into(), value.into())).collect();
    if let Some(packing) = response.header("content-encoding").filter(|packing| *packing != "identity") {
        return Err(origin.error(&format!(
            "returned content-encoding {packing}, which is not supported; disable it at the service or a proxy before it"
        )));
    }
    let body = PassthroughBody::Stream(hidden(response.into_stream(), origin.key.as_ref()));
    Ok(RelayResponse { status, headers, body })
}
