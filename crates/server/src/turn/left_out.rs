//! The header that names what of a request its service is not sent.

use axum::http::{HeaderName, HeaderValue};

const LEFT_OUT: HeaderName = HeaderName::from_static("x-valvehouse-left-out");

/// Logs what a service, described by `service`, is not sent, and returns the header that names it; `None` where nothing
/// is left out.
pub(crate) fn left_out(names: &[String], service: &str) -> Option<(HeaderName, HeaderValue)> {
    if names.is_empty() {
        return None;
    }
    let names = names.join(", ");
    tracing::info!("left out of a request for {service}: {names}");
    HeaderValue::from_str(&names).ok().map(|names| (LEFT_OUT, names))
}
