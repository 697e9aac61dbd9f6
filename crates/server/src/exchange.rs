//! The headers and the credential of a request that are forwarded to a provider, and the headers of the
//! provider's response that are returned to the client.

use crate::credentials::{credentials, issued};
use crate::headers::{MODEL, of_text};
use crate::reply::SHOULD_RETRY;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use std::sync::Arc;
use valvehouse_core::context::{Credential, Exchange, HeldMemory};
use valvehouse_host::app::App;

/// The header with the number of the client's own retry.
const CLIENT_RETRY: HeaderName = HeaderName::from_static("x-stainless-retry-count");

/// The header with the settings that were omitted from the provider's request.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-valvehouse-left-out");
/// The header with the fields that were changed for the provider.
const ADAPTED: HeaderName = HeaderName::from_static("x-valvehouse-adapted");

/// The header with the result of the check of an answer against its `response_format`, unless it matches.
const RESPONSE_FORMAT: HeaderName = HeaderName::from_static("x-valvehouse-response-format");

/// Creates the exchange of a request, whose memory counts here.
pub(crate) fn of(app: &App, parts: &Parts, memory: Arc<HeldMemory>) -> Exchange {
    let headers = &parts.headers;
    let mut exchange = Exchange::new(app.response_headers.clone());
    exchange.set_memory(memory);
    for (name, value) in headers {
        if app.request_headers.contains(name.as_str())
            && let Ok(value) = value.to_str()
        {
            exchange.send(name.as_str(), value);
        }
    }
    if let Some(number) = headers.get(CLIENT_RETRY).and_then(|value| value.to_str().ok()?.parse().ok()) {
        exchange.set_client_retry(number);
    }
    if issued(app, parts).is_some_and(|key| key.is_metered()) {
        exchange.meter();
    }
    if let Some((token, is_bearer)) = own_credential(app, headers) {
        exchange.set_credential(Credential { token: token.into(), is_bearer });
    }
    exchange
}

/// Returns the caller's own credential for a provider: the first credential that is not a key of this host.
/// Keys of this host are never forwarded.
fn own_credential<'a>(app: &App, headers: &'a HeaderMap) -> Option<(&'a str, bool)> {
    if !app.host.snapshot().plan().has_callers_keys() {
        return None;
    }
    // A revoked key is not a key of the service either.
    let keys = &app.access.keys;
    let is_ours = |token: &str| keys.holder(token).is_some() || keys.refusal(token).is_some();
    credentials(headers).find(|(token, _)| !token.is_empty() && !is_ours(token))
}

/// Adds the provider's headers to a response unless the host has set them, and the headers with the model
/// that answered, with the omitted and the changed fields, and with the check of its format.
pub(crate) fn answer(exchange: &Exchange, response: &mut Response) {
    if let Some(model) = exchange.served_by().and_then(|model| of_text(&model)) {
        response.headers_mut().insert(MODEL, model);
    }
    for (name, fields) in [(LEFT_OUT, exchange.left_out()), (ADAPTED, exchange.adapted())] {
        if let (false, Some(fields)) = (fields.is_empty(), of_text(&fields.join(", "))) {
            response.headers_mut().insert(name, fields);
        }
    }
    if let Some(check) = exchange.format_check() {
        response.headers_mut().insert(RESPONSE_FORMAT, HeaderValue::from_static(check.as_str()));
    }
    let received = exchange.take_received();
    let headers = response.headers_mut();
    for (name, value) in received {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        if let (false, Some(value)) = (headers.contains_key(&name), of_text(&value)) {
            headers.append(name, value);
        }
    }
    if exchange.is_exhausted() {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
}
