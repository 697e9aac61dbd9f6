//! The outer side of a request: the headers and the credential that may reach a service, and those of the service's
//! answer that reach its client.

use crate::credentials::credentials;
use crate::headers::MODEL;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use valvehouse_core::context::{Credential, Exchange};
use valvehouse_host::app::App;

/// The number of the client's own retry.
const CLIENT_RETRY: HeaderName = HeaderName::from_static("x-stainless-retry-count");
/// Tells clients that retry by themselves whether they shall.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Names what of the request its service was not sent.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-valvehouse-left-out");

/// Returns the outer side of a request.
pub(crate) fn of(app: &App, headers: &HeaderMap) -> Exchange {
    let mut exchange = Exchange::new(app.response_headers.clone());
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
    if let Some((token, is_bearer)) = own_credential(app, headers) {
        exchange.set_credential(Credential { token: token.into(), is_bearer });
    }
    exchange
}

/// The caller's own credential: what it shows beside a key of this host, or in its place where there are none. A key
/// of this host never leaves it.
fn own_credential<'a>(app: &App, headers: &'a HeaderMap) -> Option<(&'a str, bool)> {
    if !app.host.snapshot().plan().has_callers_keys() {
        return None;
    }
    credentials(headers).find(|(token, _)| !token.is_empty() && app.access.keys.holder(token).is_none())
}

/// Adds the headers of the service to an answer, where the host has not said so itself, and names who answered and what
/// was left out of the request.
pub(crate) fn answer(exchange: &Exchange, response: &mut Response) {
    if let Some(model) = exchange.served_by().and_then(|model| HeaderValue::from_str(&model).ok()) {
        response.headers_mut().insert(MODEL, model);
    }
    let left_out = exchange.left_out();
    if let (false, Ok(names)) = (left_out.is_empty(), HeaderValue::from_str(&left_out.join(", "))) {
        response.headers_mut().insert(LEFT_OUT, names);
    }
    let received = exchange.take_received();
    let headers = response.headers_mut();
    for (name, value) in received {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        if let (false, Ok(value)) = (headers.contains_key(&name), HeaderValue::from_str(&value)) {
            headers.append(name, value);
        }
    }
    if exchange.is_exhausted() {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
}
