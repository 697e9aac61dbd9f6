//! The checks of a request before its handler, in their order, and the timeout of its body.

use super::endpoint::EndpointGroup;
use super::{origin, proxies};
use crate::body::{drain, too_large};
use crate::credentials::{API_KEY, HOST_KEY, X_API_KEY, given_key, issued, look_up};
use crate::headers::CSRF;
use crate::{address, auth, reply, scope};
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::trace::RequestScope;
use valvehouse_host::access::{Asker, Digest};
use valvehouse_host::app::App;

/// The headers that identify the caller and the request, which may occur only once.
const SINGLE: [HeaderName; 7] =
    [header::HOST, header::ORIGIN, header::AUTHORIZATION, X_API_KEY, API_KEY, HOST_KEY, CSRF];

/// The security headers of every response.
const SAFE: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The number of headers that a response gets after its handler, for which its map grows once.
const LATER: usize = 9;

/// Passes a request to its handler, or rejects it in the error format of its endpoint. Returns also `true` if the request
/// was for a model, a tool or a filter.
pub(crate) async fn run<F: Future<Output = Response>>(
    app: &App,
    request: Request,
    work: impl FnOnce(Request) -> F,
) -> (Response, bool) {
    let (mut parts, body) = request.into_parts();
    let trusted = &app.config.server.trusted_proxies;
    if let Some(peer) = address::peer(&parts).filter(|_| !trusted.is_empty()) {
        let address = proxies::client_of(peer, &parts.headers, trusted);
        parts.extensions.insert(address::Client(address));
    }
    let endpoint = EndpointGroup::of(&parts);
    look_up(app, &mut parts);
    let passed = pass(app, &parts, endpoint);
    let runs_turn = endpoint.runs_turn(&parts.method);
    let key = runs_turn.then(|| issued(app, &parts)).flatten();
    let is_anthropic = parts.uri.path().starts_with("/v1/messages");
    let (mut response, allowed) = match passed {
        Ok(allowed) if allowed.is_some() && parts.method == Method::OPTIONS => {
            (origin::preflight(&parts.headers), allowed)
        }
        Ok(allowed) => {
            let body = if body.is_end_stream() { body } else { unhurried(body) };
            let request = Request::from_parts(parts, body);
            (work(request).await, allowed)
        }
        Err(error) => {
            tracing::debug!("rejected a request: {error}");
            let is_too_large = matches!(error, Error::Request { kind: RequestErrorKind::TooLarge, .. });
            // A client that sent `Expect` waits for the answer before it sends its body.
            if is_too_large && !parts.headers.contains_key(header::EXPECT) {
                drain(unhurried(body).into_data_stream()).await;
            }
            (endpoint.refused(error), None)
        }
    };
    let has_failed = response.status().as_u16() >= 400;
    let headers = response.headers_mut();
    headers.reserve(LATER);
    if let Some(key) = key {
        if has_failed {
            RequestScope::set_key(&key.name);
        }
        scope::name_limits(app, &key, is_anthropic, headers);
    }
    if let Some(origin) = allowed {
        origin::allow(headers, origin);
    }
    for (name, value) in SAFE {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if endpoint.is_operators() {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    (response, runs_turn)
}

/// Rejects a request because the host is stopping.
pub(crate) fn refused_by_stopping(app: &App, request: Request) -> (Response, bool) {
    let (parts, _) = request.into_parts();
    if let Some(key) = issued(app, &parts) {
        RequestScope::set_key(&key.name);
    }
    (reply::stopping(), EndpointGroup::of(&parts).runs_turn(&parts.method))
}

/// Runs all checks. Returns the origin of another site's page that may read the response.
fn pass(app: &App, parts: &Parts, endpoint: EndpointGroup) -> Result<Option<HeaderValue>, Error> {
    is_text(parts.uri.path())?;
    are_single(&parts.headers)?;
    origin::check_host(app, parts)?;
    let allowed = origin::check_origin(app, parts, endpoint)?;
    fits(app, &parts.headers)?;
    if endpoint.runs_turn(&parts.method) {
        in_time(app, parts)?;
        scope::admit(app, parts)?;
    }
    Ok(allowed)
}

/// Rejects a path that is not UTF-8 after percent-decoding, because no route can match it, and one with a control
/// character, which parsers of addresses remove: `..%09` would be `..` for a service.
fn is_text(path: &str) -> Result<(), Error> {
    if !path.contains('%') {
        return Ok(());
    }
    match percent_encoding::percent_decode_str(path).decode_utf8() {
        Ok(decoded) if !decoded.contains(char::is_control) => Ok(()),
        Ok(_) => Err(Error::invalid("cannot use the path: it has a control character", None)),
        Err(_) => Err(Error::invalid("cannot read the path: it is not UTF-8 once percent-decoded", None)),
    }
}

fn are_single(headers: &HeaderMap) -> Result<(), Error> {
    // Most requests contain each header once.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    match SINGLE.iter().find(|name| headers.get_all(*name).iter().count() > 1) {
        Some(name) => Err(Error::invalid(format!("the header `{name}` is sent more than once"), None)),
        None => Ok(()),
    }
}

/// Rejects a body whose `Content-Length` is too large, before it is sent.
fn fits(app: &App, headers: &HeaderMap) -> Result<(), Error> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let most = app.config.server.max_body_mb;
    if length.is_some_and(|length: u64| length > most.saturating_mul(1024 * 1024)) {
        return Err(too_large(most));
    }
    Ok(())
}

/// Applies the limit of requests per minute to the key or, without keys, the address.
fn in_time(app: &App, parts: &Parts) -> Result<(), Error> {
    let Some(rate) = app.access.rate() else { return Ok(()) };
    let Some(asker) = asker(app, parts) else { return Ok(()) };
    rate.take(asker, app.host.kv()).map_err(|wait| {
        let often = rate.requests;
        let what =
            format!("requests exceeded the limit of {often} per minute ([server] requests_per_minute)");
        auth::too_often(&what, "rate_limit_exceeded", wait)
    })
}

/// Returns the caller to whom the rate limit applies. If user headers are trusted, each user of a key has a
/// separate limit.
pub(crate) fn asker(app: &App, parts: &Parts) -> Option<Asker> {
    let user = parts.headers.get("x-openwebui-user-id").filter(|_| app.config.server.trust_user_headers);
    let user = user.and_then(|user| user.to_str().ok()).unwrap_or("");
    let key = given_key(&parts.headers).filter(|key| app.access.keys.holder(key).is_some());
    match (key, user) {
        (Some(key), user) => Some(Asker::Key(Digest::of(&format!("{key}\n{user}")))),
        (None, "") => address::client(parts).map(Asker::Address),
        (None, user) => Some(Asker::Key(Digest::of(&format!("\n{user}")))),
    }
}

/// The maximum time without a part of the body.
const SILENCE: Duration = Duration::from_secs(30);

/// Returns the body, with an error if no part of it arrives within [`SILENCE`].
pub(super) fn unhurried(body: Body) -> Body {
    Body::new(TimedBody { body, timer: None })
}

struct TimedBody {
    body: Body,
    /// The timeout of the next part, set once the body has to wait; most bodies arrive with their head.
    timer: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(context) {
            self.timer = None;
            return Poll::Ready(next);
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(SILENCE)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                let why = format!("no part of it was received for {} s", SILENCE.as_secs());
                Poll::Ready(Some(Err(axum::Error::new(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    why,
                )))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_fails_and_a_slow_one_does_not() {
        let slowly = futures::stream::iter(0..5).then(|_| async {
            sleep(SILENCE - Duration::from_secs(1)).await;
            Ok::<_, axum::Error>(Bytes::from_static(b"x"))
        });
        let stops = futures::stream::pending::<Result<Bytes, axum::Error>>();
        let body = unhurried(Body::from_stream(slowly.chain(stops)));
        let came: Vec<_> = body.into_data_stream().take(6).collect().await;
        assert!(came[..5].iter().all(Result::is_ok));
        assert!(
            came[5].as_ref().is_err_and(|error| error.to_string().contains("received for 30 s")),
            "{came:?}"
        );
    }
}
