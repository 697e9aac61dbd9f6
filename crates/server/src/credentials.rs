//! The credentials in a request: a key of this host, and others that may be for a provider.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use std::sync::Arc;
use valvehouse_host::access::{Holder, IssuedKey, OperatorRole};
use valvehouse_host::app::App;

/// The header for a key of this host if the usual headers contain a credential for a provider.
pub(crate) const HOST_KEY: HeaderName = HeaderName::from_static("x-valvehouse-key");

/// The headers in which Anthropic's and Azure's clients send a key.
pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// Returns the key that a request sends to this host: in the host's own header, or else in the usual headers.
pub(crate) fn given_key(headers: &HeaderMap) -> Option<&str> {
    let own = headers.get(&HOST_KEY).and_then(|value| value.to_str().ok());
    own.or_else(|| credentials(headers).next().map(|(key, _)| key))
}

/// Returns `true` if a request contains the operators' key.
pub(crate) fn is_operators_key(app: &App, headers: &HeaderMap) -> bool {
    let keys = &app.access.keys;
    given_key(headers).is_some_and(|given| match keys.holder(given) {
        Some(Holder::Issued(issued)) => issued.record.rights.role == Some(OperatorRole::Admin),
        holder => matches!(holder, Some(Holder::Admin)),
    })
}

/// The key of a request that was looked up before its handler; `None` if it is not one that operators handed out.
#[derive(Clone)]
struct KnownKey(Option<Arc<IssuedKey>>);

/// Looks up the key of a request once for all that ask for it.
pub(crate) fn look_up(app: &App, parts: &mut Parts) {
    if app.access.keys.are_required() {
        let key = issued(app, parts);
        parts.extensions.insert(KnownKey(key));
    }
}

/// Returns the key of a request if an operator handed it out for models.
pub(crate) fn issued(app: &App, parts: &Parts) -> Option<Arc<IssuedKey>> {
    if let Some(KnownKey(key)) = parts.extensions.get() {
        return key.clone();
    }
    if !app.access.keys.are_required() {
        return None;
    }
    let key = app.access.keys.issued(given_key(&parts.headers)?)?;
    key.record.rights.role.is_none().then_some(key)
}

/// Returns the credentials in the usual headers, each with `true` if it was sent as `Bearer`.
pub(crate) fn credentials(headers: &HeaderMap) -> impl Iterator<Item = (&str, bool)> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let others = [X_API_KEY, API_KEY].map(|name| text(name).map(|key| (key, false)));
    bearer.map(|key| (key, true)).into_iter().chain(others.into_iter().flatten())
}
