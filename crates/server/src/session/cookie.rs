//! The cookie that stands for a session.

use crate::address::host_of;
use axum::http::header;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use valvehouse_host::access::{LIFE, Session};
use valvehouse_host::app::App;

/// The session that a request belongs to.
pub(crate) fn session(app: &App, parts: &Parts) -> Option<Session> {
    let token = token(parts)?;
    // A key that was changed, set or taken away ends the sessions of before. One that cannot be read opens none.
    let key = match app.access.keys.has_admin() {
        true => Some(app.access.keys.admin()?),
        false => None,
    };
    app.sessions.of(token, key)
}

/// The token that a browser shows.
fn token(parts: &Parts) -> Option<&str> {
    let name = name(parts);
    let cookies = parts.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(own, _)| *own == name).map(|(_, token)| token).next()
}

/// Gives a browser its token.
pub(super) fn of(parts: &Parts, token: &str) -> HeaderValue {
    written(parts, token, LIFE.as_secs())
}

/// Takes it away again.
pub(super) fn none(parts: &Parts) -> HeaderValue {
    written(parts, "", 0)
}

fn written(parts: &Parts, token: &str, seconds: u64) -> HeaderValue {
    let secure = if came_encrypted(&parts.headers) { "; Secure" } else { "" };
    let name = name(parts);
    let text = format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    // Letters, digits and signs that headers take.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// Browsers share cookies between the ports of one machine: several hosts there would take each other's.
fn name(parts: &Parts) -> String {
    let port = host_of(parts).and_then(|host| host.rsplit_once(':')).map(|(_, port)| port);
    match port.filter(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit())) {
        Some(port) => format!("valvehouse_{port}"),
        None => "valvehouse".to_owned(),
    }
}

/// Returns `true` if the browser talks TLS, to a proxy before us. Whoever claims so wrongly only loses their own
/// cookie.
fn came_encrypted(headers: &HeaderMap) -> bool {
    let says = |name: &str, word: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    says("origin", "https://") || says("x-forwarded-proto", "https") || says("forwarded", "proto=https")
}
