//! The cookie of a session.

use crate::address::host_of;
use crate::proxy_sign_in;
use axum::http::header;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use valvehouse_host::access::{LIFE, Session};
use valvehouse_host::app::App;

/// Returns the session of a request.
pub(crate) fn session(app: &App, parts: &Parts) -> Option<Session> {
    let token = token(parts)?;
    // A changed, new or removed key ends earlier sessions. An unreadable key allows none.
    let (keys, sessions) = (&app.access.keys, &app.sessions);
    if !keys.has_admin() {
        return sessions.of(token, None);
    }
    if let Some(Ok((by, _))) = proxy_sign_in::operator(app, parts) {
        return sessions.of_proxy(token, &by);
    }
    let of_admin = keys.admin().and_then(|admin| sessions.of(token, Some(admin)));
    let is_valid = |session: &Session| session.key.is_some_and(|key| keys.operator(&key).is_some());
    of_admin.or_else(|| sessions.of_issued(token).filter(is_valid))
}

/// Returns the session token in a request's cookies.
fn token(parts: &Parts) -> Option<&str> {
    let name = name(parts);
    let cookies = parts.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(own, _)| *own == name).map(|(_, token)| token).next()
}

/// Returns the cookie that stores a token in the browser.
pub(super) fn of(parts: &Parts, token: &str) -> HeaderValue {
    written(parts, token, LIFE.as_secs())
}

/// Returns the cookie that removes the token from the browser.
pub(super) fn none(parts: &Parts) -> HeaderValue {
    written(parts, "", 0)
}

fn written(parts: &Parts, token: &str, seconds: u64) -> HeaderValue {
    let secure = if came_encrypted(&parts.headers) { "; Secure" } else { "" };
    let name = name(parts);
    let text = format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    // The text contains only characters that headers allow.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// Returns the name of the cookie. It contains the port, because browsers share cookies between the ports of
/// one host name.
fn name(parts: &Parts) -> String {
    let port = host_of(parts).and_then(|host| host.rsplit_once(':')).map(|(_, port)| port);
    match port.filter(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit())) {
        Some(port) => format!("valvehouse_{port}"),
        None => "valvehouse".to_owned(),
    }
}

/// Returns `true` if the browser uses TLS, to a proxy in front of this host. A false claim only affects the
/// client's own cookie.
fn came_encrypted(headers: &HeaderMap) -> bool {
    let header_has = |name: &str, word: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    header_has("origin", "https://")
        || header_has("x-forwarded-proto", "https")
        || header_has("forwarded", "proto=https")
}
