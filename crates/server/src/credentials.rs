//! The credentials that a request shows: a key of this host, and others that may be for a service.

use axum::http::{HeaderMap, HeaderName, header};
use valvehouse_host::access::Holder;
use valvehouse_host::app::App;

/// The key of this host, where the usual headers hold a credential for a service.
pub(crate) const HOST_KEY: HeaderName = HeaderName::from_static("x-valvehouse-key");

/// The headers that Anthropic's and Azure's clients show a key in.
pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// The key of this host that a request shows: in a header of our own where its other ones are for a service.
pub(crate) fn given_key(headers: &HeaderMap) -> Option<&str> {
    let own = headers.get(&HOST_KEY).and_then(|value| value.to_str().ok());
    own.or_else(|| credentials(headers).next().map(|(key, _)| key))
}

/// Returns `true` if a request carries the operators' key rather than a user's.
pub(crate) fn is_operators_key(app: &App, headers: &HeaderMap) -> bool {
    let holder = given_key(headers).and_then(|given| app.access.keys.holder(given));
    matches!(holder, Some(Holder::Admin))
}

/// The credentials that a request shows in the usual headers, each with whether it came as `Bearer`.
pub(crate) fn credentials(headers: &HeaderMap) -> impl Iterator<Item = (&str, bool)> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let others = [X_API_KEY, API_KEY].map(|name| text(name).map(|key| (key, false)));
    bearer.map(|key| (key, true)).into_iter().chain(others.into_iter().flatten())
}
