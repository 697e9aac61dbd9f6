//! The error type of requests: the responsible party, and a text that clients may see.

use crate::error_code::ErrorCode;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

/// A boxed error, as used by callbacks of library users: `?` and `"text".into()` create one.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Returns the text of an error and of its sources.
pub(crate) fn with_sources(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors include the text of their source.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// A problem of a declaration, with its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misdeclaration {
    /// The sentence.
    pub message: String,
    /// The path of the declared value that it is about, such as `limit.minimum`; empty for all of the declaration.
    pub path: String,
    /// For an unknown key, that key and the known one that is meant.
    pub meant: Option<(String, String)>,
}

impl Misdeclaration {
    /// Creates a problem of the value at a path.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), path: path.into(), meant: None }
    }

    /// Puts the value into another one at a path, and words before the sentence.
    #[must_use]
    pub fn within(self, path: &str, words: &str) -> Self {
        let message = format!("{words} {}", self.message);
        let dot = if path.is_empty() || self.path.is_empty() { "" } else { "." };
        Self { path: format!("{path}{dot}{}", self.path), message, ..self }
    }
}

impl fmt::Display for Misdeclaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<String> for Misdeclaration {
    fn from(message: String) -> Self {
        Self::at("", message)
    }
}

/// The error of a declaration, such as that of a tool's parameters: all its problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclarationError(pub Vec<Misdeclaration>);

impl DeclarationError {
    /// Returns the sentences.
    pub fn messages(&self) -> Vec<&str> {
        self.0.iter().map(|problem| problem.message.as_str()).collect()
    }
}

impl fmt::Display for DeclarationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.messages().join("; "))
    }
}

impl StdError for DeclarationError {}

impl From<Misdeclaration> for DeclarationError {
    fn from(problem: Misdeclaration) -> Self {
        Self(vec![problem])
    }
}

impl From<String> for DeclarationError {
    fn from(problem: String) -> Self {
        Self(vec![problem.into()])
    }
}

/// The party responsible for an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The request is invalid, or a filter refused it.
    Caller,
    /// A script or closure failed.
    Plugin,
    /// The provider failed.
    Provider,
    /// The host failed.
    Host,
}

/// A plugin's decision to reject, with its status.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// The text for the client.
    pub message: String,
    /// The HTTP status, 400 to 599.
    pub status: u16,
    /// The number of seconds after which a retry makes sense.
    pub retry_after: Option<f64>,
    /// Set if a rejection of a tool call ends the turn instead of being returned to the model.
    pub fatal: bool,
    /// The name of the plugin, set by the chain.
    pub plugin: String,
    /// The failure of a tool with its content, if it has more than its message; see
    /// [`ToolError::content`](crate::tool::ToolError::content).
    pub content: Option<Json>,
}

impl Rejection {
    /// Creates a rejection with status 400.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: 400,
            retry_after: None,
            fatal: false,
            plugin: String::new(),
            content: None,
        }
    }

    /// Sets the status. A value that is not an error status becomes 500.
    #[must_use]
    pub fn with_status(mut self, status: i64) -> Self {
        self.status = u16::try_from(status).ok().filter(|status| (400..600).contains(status)).unwrap_or(500);
        self
    }
}

impl<T: Into<String>> From<T> for Rejection {
    fn from(message: T) -> Self {
        Self::new(message)
    }
}

/// A plugin failure: a bug, an exceeded budget or an invalid return value, as opposed to a [`Rejection`].
#[derive(Debug, Clone)]
pub struct PluginError {
    /// The plugin's id or the closure's name, set by the chain.
    pub plugin: String,
    /// The name of the hook or tool, set by the chain.
    pub hook: String,
    /// The full cause for the log: message with file:line:column.
    pub cause: String,
    /// The error that the plugin's Rust code returned, if any.
    pub source: Option<Arc<dyn StdError + Send + Sync>>,
    /// Set if the request caused the failure, for example by its size, or the load of the host. The failure does not
    /// count for the plugin's circuit breaker, which any client could open otherwise.
    pub is_by_request: bool,
    /// The rejection that a client receives instead of the failure, from a hook before a model or tool call.
    pub rejection: Option<Box<Rejection>>,
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed in {}: {}", self.plugin, self.hook, self.cause)
    }
}

impl StdError for PluginError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl PluginError {
    /// Creates a plugin error. The chain sets the plugin.
    pub fn new(cause: impl Into<String>) -> Self {
        Self {
            plugin: String::new(),
            hook: String::new(),
            cause: cause.into(),
            source: None,
            is_by_request: false,
            rejection: None,
        }
    }

    /// Creates a plugin error from the error of a plugin in Rust, which becomes its source. A plugin error is returned
    /// unchanged.
    pub fn of(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(failure) => *failure,
            Err(error) => Self { cause: with_sources(&*error), source: Some(error.into()), ..Self::new("") },
        }
    }
}

/// The reason for a failure of a provider or the store: the full text for operators, and a text without
/// addresses for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    public: String,
    full: Option<String>,
}

impl Explanation {
    /// Creates an explanation with a text for clients and one for operators.
    pub fn new(public: impl Into<String>, full: impl Into<String>) -> Self {
        Self { public: public.into(), full: Some(full.into()) }
    }

    /// Returns the text for clients.
    pub fn public(&self) -> &str {
        &self.public
    }
}

/// Writes the text for operators.
impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.full.as_deref().unwrap_or(&self.public))
    }
}

/// Uses one text for clients and operators.
impl<T: Into<String>> From<T> for Explanation {
    fn from(text: T) -> Self {
        Self { public: text.into(), full: None }
    }
}

/// The error of a request: the reason why it has no answer.
///
/// [`Error::blame`] returns the responsible party, and [`Error::is_retryable`] whether to try again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid.
    Request {
        /// The problem, and how to fix it.
        message: String,
        /// The field that the problem is about.
        param: Option<&'static str>,
        /// A machine-readable code, such as `model_not_found`.
        code: Option<&'static str>,
        /// The kind of problem.
        kind: RequestErrorKind,
    },
    /// The request exceeds a rate limit.
    TooOften {
        /// The exceeded limit and the time of the next attempt.
        message: String,
        /// A machine-readable code, such as `rate_limit_exceeded`.
        code: &'static str,
        /// The time until the next attempt.
        wait: Duration,
    },
    /// A filter or tool refused the request.
    Rejected(Rejection),
    /// A plugin failed.
    Broken(PluginError),
    /// A guard cannot run, so the request is refused.
    Unguarded {
        /// The id of the missing guard.
        plugin: String,
        /// The reason, and how to fix it.
        message: String,
    },
    /// The provider returned an error response.
    Answered {
        /// The configured name of the provider.
        provider: String,
        /// The HTTP status of the response.
        status: u16,
        /// The body of the response, if it is JSON.
        body: Json,
        /// The `Retry-After` header of the response.
        retry_after: Option<String>,
    },
    /// The provider returned no byte of a response.
    Unanswered {
        /// The attempted operation and the cause of its failure.
        message: Explanation,
        /// Set if the request may have reached the provider, which may have processed it.
        sent: bool,
        /// Set if the deadline was exceeded.
        timeout: bool,
    },
    /// The circuit breaker of the provider is open.
    BreakerOpen {
        /// The provider, the time of the next attempt and the last failure.
        message: Explanation,
        /// The time until the next attempt.
        cool_down: Duration,
    },
    /// The provider failed while answering or could not be used.
    Provider {
        /// The attempted operation and the cause of its failure.
        message: Explanation,
        /// Set if the deadline was exceeded.
        timeout: bool,
    },
    /// The model's answer does not have the requested form.
    Misshapen {
        /// The mismatches and the number of attempts.
        message: String,
    },
    /// The tool loop reached its limit of model calls.
    ToolLoop {
        /// The maximum number of model calls.
        limit: usize,
        /// The messages so far.
        transcript: Json,
    },
    /// The turn paused for a person. The run holds the question.
    Paused,
    /// The store cannot read or write data that the request needs.
    Unstored {
        /// The attempted operation and the cause of its failure.
        message: Explanation,
        /// A machine-readable code, such as `store_full`.
        code: &'static str,
    },
    /// The host has too much work at the moment.
    TooBusy {
        /// The exceeded limit.
        message: String,
        /// The time until the next attempt.
        wait: Duration,
    },
    /// The host failed.
    Host(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { message, .. }
            | Self::TooOften { message, .. }
            | Self::Rejected(Rejection { message, .. })
            | Self::Unguarded { message, .. }
            | Self::Misshapen { message }
            | Self::TooBusy { message, .. }
            | Self::Host(message) => f.write_str(message),
            Self::Broken(failure) => failure.fmt(f),
            Self::Answered { provider, status, .. } => write!(f, "provider {provider} answered {status}"),
            Self::Unanswered { message, .. }
            | Self::BreakerOpen { message, .. }
            | Self::Provider { message, .. }
            | Self::Unstored { message, .. } => message.fmt(f),
            Self::ToolLoop { limit, .. } => {
                write!(f, "the model still calls tools after {limit} model calls")
            }
            Self::Paused => f.write_str("the turn waits for a person"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Broken(failure) => failure.source(),
            _ => None,
        }
    }
}

/// The kind of problem with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestErrorKind {
    /// A malformed request (status 400).
    Invalid,
    /// A missing or invalid key.
    Unauthenticated,
    /// A key without permission for the request.
    Forbidden,
    /// An unknown resource.
    NotFound,
    /// An unsupported method.
    Method,
    /// A request that exceeds a size limit.
    TooLarge,
    /// A body that arrived too slowly.
    Timeout,
    /// A conflict with the current state.
    Conflict,
    /// A well-formed request that cannot be processed.
    Unusable,
}

impl RequestErrorKind {
    /// Returns the HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Method => 405,
            Self::Timeout => 408,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::Unusable => 422,
        }
    }
}

impl Error {
    /// Creates an error for a malformed request; `param` is the invalid field.
    pub fn invalid(message: impl Into<String>, param: Option<&'static str>) -> Self {
        Self::Request { message: message.into(), param, code: None, kind: RequestErrorKind::Invalid }
    }

    /// Replaces the failure of a plugin by the rejection that it names, if any.
    #[must_use]
    pub fn into_rejection(self) -> Self {
        match self {
            Self::Broken(PluginError { plugin, rejection: Some(rejection), .. }) => {
                Self::Rejected(Rejection { plugin, ..*rejection })
            }
            other => other,
        }
    }

    /// Returns the party responsible for the error.
    pub fn blame(&self) -> Blame {
        match self {
            // A tool that fails rejects with a status of the server.
            Self::Rejected(rejection) if rejection.status >= 500 => Blame::Plugin,
            Self::Request { .. } | Self::TooOften { .. } | Self::Rejected(_) => Blame::Caller,
            Self::Broken(_) | Self::Unguarded { .. } => Blame::Plugin,
            Self::Answered { .. }
            | Self::Unanswered { .. }
            | Self::BreakerOpen { .. }
            | Self::Provider { .. }
            | Self::Misshapen { .. } => Blame::Provider,
            Self::ToolLoop { .. }
            | Self::Paused
            | Self::Unstored { .. }
            | Self::TooBusy { .. }
            | Self::Host(_) => Blame::Host,
        }
    }
}

impl Error {
    /// Returns the HTTP status of the response for a client.
    pub fn status(&self) -> u16 {
        match self {
            Self::Request { kind, .. } => kind.status(),
            Self::TooOften { .. } => 429,
            Self::Rejected(rejection) => rejection.status,
            Self::Unguarded { .. } => 503,
            Self::Answered { status, .. } => *status,
            Self::BreakerOpen { .. } | Self::Unstored { .. } | Self::TooBusy { .. } => 503,
            Self::Provider { timeout: true, .. } | Self::Unanswered { timeout: true, .. } => 504,
            Self::Provider { .. } | Self::Unanswered { .. } | Self::Misshapen { .. } => 502,
            Self::Broken(_) | Self::ToolLoop { .. } | Self::Paused | Self::Host(_) => 500,
        }
    }

    /// Returns the reason of an error that clients act on; `None` for all other errors.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Answered { status, body, .. } => ErrorCode::of_service(*status, body),
            Self::TooOften { .. } => Some(ErrorCode::RateLimited),
            _ => None,
        }
    }

    /// Returns `true` if the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::TooOften { .. }
            | Self::BreakerOpen { .. }
            | Self::Unstored { .. }
            | Self::TooBusy { .. } => true,
            Self::Unanswered { sent, .. } => !sent,
            Self::Provider { timeout, .. } => *timeout,
            Self::Rejected(rejection) => rejection.retry_after.is_some() || rejection.status == 429,
            Self::Answered { status, .. } => {
                matches!(status, 408 | 429 | 500..) && self.code() != Some(ErrorCode::UpstreamAuth)
            }
            Self::Request { .. }
            | Self::Broken(_)
            | Self::Unguarded { .. }
            | Self::Misshapen { .. }
            | Self::ToolLoop { .. }
            | Self::Paused
            | Self::Host(_) => false,
        }
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}
impl From<PluginError> for Error {
    fn from(failure: PluginError) -> Self {
        Self::Broken(failure)
    }
}
