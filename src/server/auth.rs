//! Who may ask, and who that is.

use super::reply::OpenAiError;
use crate::app::App;
use crate::fault::{Fault, RequestFault};
use crate::json::Json;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The user bound to the key of a request; null where the key is nobody's, or none is needed.
pub(crate) fn user_of_key(app: &App, headers: &HeaderMap) -> Result<Json, Fault> {
    let keys = &app.config.server.keys;
    if keys.is_empty() {
        return Ok(Json::Null);
    }
    let refused = |message: &str| {
        Err(Fault::Request {
            message: message.into(),
            param: None,
            code: Some("invalid_api_key"),
            kind: RequestFault::Unauthenticated,
        })
    };
    let Some(given) = given_key(headers) else {
        return refused("no API key: send `Authorization: Bearer KEY` with a key of [server] keys");
    };
    for key in keys {
        // A key that cannot be read opens nothing.
        let Ok(secret) = key.key.read() else { continue };
        if secret.expose().as_bytes().ct_eq(given.as_bytes()).into() {
            return Ok(key.user.clone().unwrap_or_default());
        }
    }
    refused("this API key is not one of [server] keys")
}

/// Lets operators by: whoever has the key of `[admin]` or, where there is none, whoever sits at this
/// machine.
pub(crate) async fn operators_only(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match operator(&app, &parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

fn operator(app: &App, parts: &Parts) -> Result<(), Fault> {
    let Some(key) = &app.config.admin.key else { return at_this_machine(parts) };
    // A key that cannot be read opens nothing.
    let secret = key.read().ok();
    let is_right = given_key(&parts.headers).zip(secret).is_some_and(|(given, secret)| {
        let right: bool = secret.expose().as_bytes().ct_eq(given.as_bytes()).into();
        right
    });
    if is_right {
        return Ok(());
    }
    Err(Fault::Request {
        message: "this is for operators: send `Authorization: Bearer KEY` with the key of [admin]".into(),
        param: None,
        code: Some("invalid_api_key"),
        kind: RequestFault::Unauthenticated,
    })
}

/// Neither from another machine, also through a proxy on this one, nor from another site's page in a
/// browser on this one.
fn at_this_machine(parts: &Parts) -> Result<(), Fault> {
    let headers = &parts.headers;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let client = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let is_near = client.is_none_or(|client| client.0.ip().to_canonical().is_loopback());
    let is_passed_on =
        ["forwarded", "x-forwarded-for", "x-real-ip"].iter().any(|name| headers.contains_key(*name));
    let host = text("host").or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    let host = host.unwrap_or_default();
    let is_own_page = text("origin").is_none_or(|origin| {
        origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host))
    });
    if is_near && !is_passed_on && is_loopback(host) && is_own_page {
        return Ok(());
    }
    Err(Fault::Request {
        message: "this is for operators, and only for this machine as long as [admin] key is not set".into(),
        param: None,
        code: Some("admin_key_needed"),
        kind: RequestFault::Forbidden,
    })
}

/// Whether a `Host` is this machine by name or number: a name of somebody else's may point here too.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.is_empty()
        || name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

fn given_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()))
}
