//! Conversion of errors to responses. No other module defines status codes.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use valvehouse_core::context::is_free_text;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::error_code::{self, ErrorCode};
use valvehouse_json::Json;
use valvehouse_store::StoreError;

/// The header that tells a client to retry or not.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The code of the error for a key whose budget is used up: retrying soon has no use.
pub(crate) const OVER_BUDGET: &str = "insufficient_quota";

/// An error in OpenAI's format: `{"error": {message, type, param, code}}`. A response logs it.
pub(crate) struct OpenAiError(pub(crate) Error);

impl From<Error> for OpenAiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<StoreError> for OpenAiError {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        log(&self.0);
        unlogged(&self.0)
    }
}

/// Returns an error in OpenAI's format that is logged elsewhere.
pub(crate) fn unlogged(error: &Error) -> Response {
    refusal(error, &body(error))
}

/// An error in the format of Open WebUI and pipelines servers: `{"detail": text}`.
pub(crate) struct Detail(pub(crate) Error);

impl From<Error> for Detail {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Detail {
    fn into_response(self) -> Response {
        let text = body(&self.0).at_path("error.message");
        refusal(&self.0, &Json::from([("detail", text)]))
    }
}

/// The error format of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// See [`OpenAiError`].
    OpenAi,
    /// See [`Detail`].
    Detail,
}

impl ErrorForm {
    /// Returns the error format of the matched route.
    pub(crate) fn of(parts: &Parts) -> Self {
        parts.extensions.get::<Self>().copied().unwrap_or(Self::OpenAi)
    }

    /// Logs an error and returns it in this form.
    pub(crate) fn refuse(self, error: Error) -> Response {
        match self {
            Self::OpenAi => OpenAiError(error).into_response(),
            Self::Detail => {
                log(&error);
                Detail(error).into_response()
            }
        }
    }
}

/// Returns the response for an error, with its status, this body, and the `Retry-After` header if a retry is
/// possible.
pub(crate) fn refusal(error: &Error, body: &Json) -> Response {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, body);
    if let Some(after) = retry_after(error) {
        response.headers_mut().insert(header::RETRY_AFTER, after);
    }
    let is_over_budget = matches!(error, Error::TooOften { code: OVER_BUDGET, .. });
    if is_over_budget || error.code() == Some(ErrorCode::UpstreamAuth) {
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response
}

/// Returns a JSON response.
pub(crate) fn json_response(status: StatusCode, value: &Json) -> Response {
    let bytes = value.encode_raw().unwrap_or_else(|error| {
        tracing::error!("cannot write a response: {error}");
        Vec::new()
    });
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Logs an error. The addresses of providers and of the store are only logged, and never sent to clients.
pub(crate) fn log(error: &Error) {
    match error {
        Error::Answered { status: 500.., body, .. } if error.code() == Some(ErrorCode::UpstreamAuth) => {
            tracing::warn!(
                "a request failed: {}",
                error_code::message_of(body).unwrap_or_else(|| error.to_string())
            );
        }
        Error::Provider { .. }
        | Error::Unanswered { .. }
        | Error::Unstored { .. }
        | Error::TooBusy { .. }
        | Error::Answered { status: 500.., .. } => {
            tracing::warn!("a request failed: {error}");
        }
        _ => tracing::debug!("refused: {error}"),
    }
}

/// Returns the body of an error response. Details for operators are only logged.
pub(crate) fn body(error: &Error) -> Json {
    let envelope = |message: String, kind: &str, param: Json, code: Json| {
        let error = Json::from([
            ("message", message.into()),
            ("type", kind.into()),
            ("param", param),
            ("code", code),
        ]);
        Json::from([("error", error)])
    };
    match error {
        Error::Request { message, param, code, kind } => {
            let (word, usual) = match kind {
                RequestErrorKind::Unauthenticated => ("authentication_error", Some("invalid_api_key")),
                RequestErrorKind::Forbidden => ("permission_error", None),
                _ => ("invalid_request_error", None),
            };
            let param = param.map_or(Json::Null, Json::from);
            envelope(message.clone(), word, param, code.or(usual).map_or(Json::Null, Json::from))
        }
        Error::TooOften { message, code, .. } => {
            envelope(message.clone(), "rate_limit_error", Json::Null, Json::from(*code))
        }
        Error::Rejected(rejection) => {
            let kind = if rejection.status == 429 { "rate_limit_error" } else { "policy_violation" };
            envelope(rejection.message.clone(), kind, Json::Null, rejection.plugin.as_str().into())
        }
        Error::Broken(failure) => envelope(
            format!(
                "the plugin `{}` failed in its {}; the host's log has the reason",
                failure.plugin, failure.hook
            ),
            "server_error",
            Json::Null,
            "plugin_failed".into(),
        ),
        Error::Unguarded { plugin, message } => {
            envelope(message.clone(), "policy_violation", Json::Null, plugin.as_str().into())
        }
        Error::Answered { provider, status, body, .. } => passed_on(provider, *status, body),
        Error::BreakerOpen { message, .. } => {
            envelope(message.public().into(), "upstream_error", Json::Null, "upstream_breaker_open".into())
        }
        Error::Provider { message, timeout } | Error::Unanswered { message, timeout, .. } => {
            let code = if *timeout { "upstream_timeout" } else { "upstream_unreachable" };
            envelope(message.public().into(), "upstream_error", Json::Null, code.into())
        }
        Error::Misshapen { message } => {
            envelope(message.clone(), "upstream_error", Json::Null, "response_format".into())
        }
        Error::ToolLoop { .. } => {
            envelope(error.to_string(), "server_error", Json::Null, "max_tool_iterations".into())
        }
        Error::Paused => envelope(error.to_string(), "server_error", Json::Null, Json::from("paused")),
        Error::Unstored { message, code } => {
            envelope(message.public().into(), "server_error", Json::Null, Json::from(*code))
        }
        Error::TooBusy { message, .. } => {
            envelope(message.clone(), "server_error", Json::Null, "host_too_busy".into())
        }
        Error::Host(message) => envelope(message.clone(), "server_error", Json::Null, Json::Null),
        _ => envelope("the host cannot answer".into(), "server_error", Json::Null, Json::Null),
    }
}

/// Returns the error of a provider, converted to OpenAI's format if necessary.
fn passed_on(provider: &str, status: u16, body: &Json) -> Json {
    let code = ErrorCode::of_service(status, body);
    if let Some(Json::Object(_)) = body.get("error") {
        return code.map_or_else(|| body.clone(), |code| with_code(body, code));
    }
    let message = error_code::message_of(body).or_else(|| match body {
        Json::Null | Json::Text(_) => None,
        other => Some(other.to_string()),
    });
    let message =
        message.unwrap_or_else(|| format!("provider {provider} returned {status} without a message"));
    let error = Json::from([
        ("message", message.into()),
        ("type", "upstream_error".into()),
        ("param", Json::Null),
        ("code", body.field("code")),
    ]);
    let body = Json::from([("error", error)]);
    code.map_or_else(|| body.clone(), |code| with_code(&body, code))
}

/// Returns a service's error with the code on which OpenAI's clients act, unless the service sent a code of its own.
/// A conversation that is too long has always the same code and type.
fn with_code(body: &Json, code: ErrorCode) -> Json {
    let error = body.field("error");
    let is_too_long = code == ErrorCode::ContextLength;
    let has_own =
        error.text("code").is_some_and(|own| !own.is_empty() && (!is_too_long || own == code.openai()));
    if has_own || code == ErrorCode::UpstreamAuth {
        return body.clone();
    }
    let body = body.deep_clone();
    let error = body.field("error");
    // The objects are copies, so the writes cannot fail.
    error.edit("code", code.openai());
    if is_too_long || error.text("type").is_none_or(|kind| kind.is_empty()) {
        error.edit(
            "type",
            if code == ErrorCode::RateLimited { "rate_limit_error" } else { "invalid_request_error" },
        );
    }
    body
}

pub(crate) fn retry_after(error: &Error) -> Option<HeaderValue> {
    match error {
        Error::Rejected(rejection) => whole_seconds(rejection.retry_after?),
        Error::TooOften { wait, .. } | Error::TooBusy { wait, .. } => {
            whole_seconds(wait.as_secs_f64().max(1.0))
        }
        Error::BreakerOpen { cool_down, .. } => whole_seconds(cool_down.as_secs_f64().max(1.0)),
        Error::Answered { retry_after, .. } => {
            let given = retry_after.as_deref()?;
            // Some providers send fractions of a second; the header allows whole seconds and dates.
            match given.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite()) {
                Some(seconds) => whole_seconds(seconds),
                None => HeaderValue::from_str(given).ok().filter(|_| !is_free_text(given)),
            }
        }
        _ => None,
    }
}

fn whole_seconds(seconds: f64) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{:.0}", seconds.ceil().clamp(0.0, 1.0e9))).ok()
}

/// Returns the error for new requests while the host stops. Another host or its successor can answer them.
pub(crate) fn stopping() -> Response {
    let error = Json::from([
        ("message", "this host is stopping; try again in a moment".into()),
        ("type", "server_error".into()),
        ("param", Json::Null),
        ("code", "stopping".into()),
    ]);
    let mut response = json_response(StatusCode::SERVICE_UNAVAILABLE, &Json::from([("error", error)]));
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns the value as JSON, or the error.
pub(crate) fn answer(result: Result<Json, Error>) -> Response {
    match result {
        Ok(value) => json_response(StatusCode::OK, &value),
        Err(error) => refused(error),
    }
}

/// Logs an error and returns it in OpenAI's format.
pub(crate) fn refused(error: Error) -> Response {
    OpenAiError(error).into_response()
}
