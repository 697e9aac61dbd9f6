//! The checks of the host name and of the page that sends a request.
//!
//! A browser lets any page send requests to any address, including this machine, and any domain may resolve
//! to this host. The requested host name must therefore be one of this host, and the page must be its own or
//! listed.

use super::endpoint::EndpointGroup;
use crate::address::{host_of, is_own, name_of};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use valvehouse_config::is_loopback;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;

/// The headers of this host that pages may read.
const SHOWN: &str = "retry-after, www-authenticate, mcp-session-id, x-valvehouse-generation, x-valvehouse-trace, x-valvehouse-events, x-valvehouse-model";

/// Checks the host name. Without keys, only local and configured names are accepted; with keys, any name
/// unless names are configured.
pub(super) fn check_host(app: &App, parts: &Parts) -> Result<(), Error> {
    let server = &app.config.server;
    // A liveness probe may not know the name, and receives no information.
    let is_any = parts.uri.path() == "/livez" || app.access.keys.are_required() && server.hosts.is_empty();
    let given = [host_of(parts), parts.uri.authority().map(|authority| authority.as_str())];
    let is_ours = |host: &str| {
        name_of(host).is_some_and(|name| {
            host.is_empty()
                || is_loopback(name)
                || name.eq_ignore_ascii_case(&server.listen.host)
                || server.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
        })
    };
    match given.into_iter().flatten().find(|host| !is_any && !is_ours(host)) {
        None => Ok(()),
        Some(host) => Err(forbidden(
            format!(
                "unknown host name {:?}; add it with [server] hosts = [{:?}]",
                host,
                name_of(host).unwrap_or("…")
            ),
            "host_not_allowed",
        )),
    }
}

/// Checks the page that sends a request. Returns the origin of another site's page if it is listed and may
/// read the response.
pub(super) fn check_origin(
    app: &App,
    parts: &Parts,
    endpoint: EndpointGroup,
) -> Result<Option<HeaderValue>, Error> {
    let headers = &parts.headers;
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let (site, origin) = (text(&SITE), text(&header::ORIGIN));
    // A browser knows its own page even behind a proxy that changes the host name.
    if site == Some("same-origin") {
        return Ok(None);
    }
    let is_own_page = origin.is_none_or(|origin| host_of(parts).is_some_and(|host| is_own(origin, host)));
    let is_beside = matches!(site, Some("cross-site" | "same-site"));
    if is_own_page && (!is_beside || is_visit(parts)) {
        return Ok(None);
    }
    let origin = origin.unwrap_or("another site");
    let is_listed = app.config.server.origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin));
    if is_listed && endpoint.may_be_shared() {
        return Ok(headers.get(header::ORIGIN).cloned());
    }
    let help = match endpoint.may_be_shared() {
        true => format!("; add it with [server] origins = [{origin:?}]"),
        false => "; operators' routes accept requests only from this host's own page".to_owned(),
    };
    Err(forbidden(
        format!("a page of {origin} is not allowed to send requests to this host{help}"),
        "origin_not_allowed",
    ))
}

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns `true` if the user followed a link to a file of the page. Other routes may return content of clients
/// and services, which a link of another site must not open at this origin.
fn is_visit(parts: &Parts) -> bool {
    let is = |name: &str, word: &str| parts.headers.get(name).is_some_and(|value| value == word);
    let is_reading = matches!(parts.method, Method::GET | Method::HEAD);
    let path = parts.uri.path();
    let is_of_page = path == "/" || path.starts_with("/page/");
    is_reading && is_of_page && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// Answers the preflight request for a listed page.
pub(super) fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    if let Some(requested_headers) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested_headers.clone());
    }
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Allows the page of this origin to read the response.
pub(super) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SHOWN));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

fn forbidden(message: String, code: &'static str) -> Error {
    Error::Request { message, param: None, code: Some(code), kind: RequestErrorKind::Forbidden }
}
