//! The error of a request: whose fault it is, and the text that may be shown.

use std::error::Error;
use std::fmt;
use std::time::Duration;
use valvehouse_json::Json;

/// Any error, as the functions of library users return it: `?` and `"text".into()` make one.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Returns the text of an error and of what caused it.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors name their cause themselves.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The party that has to act on a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The request is wrong, or a filter refused it.
    Caller,
    /// A script or closure broke.
    Plugin,
    /// The model's service failed.
    Provider,
    /// We failed.
    Host,
}

/// A plugin's decision to stop, with the status it chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The text that the client reads.
    pub message: String,
    /// 400 to 599.
    pub status: u16,
    /// Seconds after which trying again makes sense.
    pub retry_after: Option<f64>,
    /// In a tool call: stop the turn instead of telling the model.
    pub fatal: bool,
    /// The plugin that refused; filled in by the chain.
    pub plugin: String,
}

impl Refusal {
    /// A refusal with status 400.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 400, retry_after: None, fatal: false, plugin: String::new() }
    }

    /// The same with a status; what is not an error status becomes 500.
    #[must_use]
    pub fn with_status(mut self, status: i64) -> Self {
        self.status = u16::try_from(status).ok().filter(|status| (400..600).contains(status)).unwrap_or(500);
        self
    }
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(message: T) -> Self {
        Self::new(message)
    }
}

/// A plugin that broke: a bug, a budget, a wrong return. Never its decision.
#[derive(Debug, Clone)]
pub struct Breakage {
    /// The plugin's id or the closure's name; filled in by the chain.
    pub plugin: String,
    /// The hook or tool that ran; filled in by the chain.
    pub hook: String,
    /// The cause in full, for the log: message with file:line:column.
    pub cause: String,
}

impl fmt::Display for Breakage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broke in {}: {}", self.plugin, self.hook, self.cause)
    }
}

/// An error of Rust code is breakage: with this, `?` works in a filter's closure. For that, a
/// breakage does not implement [`std::error::Error`] itself; [`Fault`] does.
impl<E: Error> From<E> for Breakage {
    fn from(error: E) -> Self {
        Self::new(with_sources(&error))
    }
}

impl Breakage {
    /// A breakage of a plugin that the chain will name.
    pub fn new(cause: impl Into<String>) -> Self {
        Self { plugin: String::new(), hook: String::new(), cause: cause.into() }
    }
}

/// The reason for which a provider or the store failed: in full for operators, and without addresses for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    public: String,
    full: Option<String>,
}

impl Explanation {
    /// An explanation of which clients see only the first text.
    pub fn new(public: impl Into<String>, full: impl Into<String>) -> Self {
        Self { public: public.into(), full: Some(full.into()) }
    }

    /// Returns the text for clients.
    pub fn public(&self) -> &str {
        &self.public
    }
}

/// The text for operators.
impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.full.as_deref().unwrap_or(&self.public))
    }
}

/// One text for both.
impl<T: Into<String>> From<T> for Explanation {
    fn from(text: T) -> Self {
        Self { public: text.into(), full: None }
    }
}

/// The reason for which a request has no answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The request itself is wrong.
    Request {
        /// The problem with it, and how to fix it.
        message: String,
        /// The field it is about.
        param: Option<&'static str>,
        /// A word for programs: `model_not_found`.
        code: Option<&'static str>,
        /// The kind of problem.
        kind: RequestFault,
    },
    /// It comes too often.
    TooOften {
        /// The limit that was exceeded, and the time of the next attempt.
        message: String,
        /// A word for programs: `rate_limit_exceeded`.
        code: &'static str,
        /// Until it may come again.
        wait: Duration,
    },
    /// A filter or tool refused.
    Refused(Refusal),
    /// A plugin broke.
    Broken(Breakage),
    /// A guard cannot run: refuse rather than go on without it.
    Unguarded {
        /// The plugin that is missing.
        plugin: String,
        /// The reason, and how to fix it.
        message: String,
    },
    /// The model's service answered with an error of its own.
    Answered {
        /// The provider's configured name.
        provider: String,
        /// Its status.
        status: u16,
        /// Its body, passed on where it is JSON.
        body: Json,
        /// Its `Retry-After`.
        retry_after: Option<String>,
    },
    /// The model's service gave no answer: not one byte of it came.
    Unanswered {
        /// The attempted operation and the cause of its failure.
        message: Explanation,
        /// Set if the request may have reached the service, which may have done the work.
        sent: bool,
        /// Set if the service was too slow.
        timeout: bool,
    },
    /// The model's service failed again and again and is left alone for a while.
    Resting {
        /// The service, the time of the next attempt, and the reason for the rest.
        message: Explanation,
        /// Until it is tried again.
        rest: Duration,
    },
    /// The model's service could not be used.
    Provider {
        /// The attempted operation and the cause of its failure.
        message: Explanation,
        /// Set if the service was too slow.
        timeout: bool,
    },
    /// The model's answer does not have the form that was asked for.
    Misshapen {
        /// The parts that do not fit, and the number of attempts.
        message: String,
    },
    /// The tool loop did not come to an end.
    ToolLoop {
        /// The limit.
        limit: usize,
        /// The messages so far.
        transcript: Json,
    },
    /// The turn stops for a person; who may go on with it knows what it waits for.
    Paused,
    /// The store did not take or give what the request needs.
    Unstored {
        /// The attempted operation and the cause of its failure.
        message: Explanation,
        /// A word for programs: `store_full`.
        code: &'static str,
    },
    /// We failed.
    Host(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { message, .. }
            | Self::TooOften { message, .. }
            | Self::Refused(Refusal { message, .. })
            | Self::Unguarded { message, .. }
            | Self::Misshapen { message }
            | Self::Host(message) => f.write_str(message),
            Self::Broken(breakage) => breakage.fmt(f),
            Self::Answered { provider, status, .. } => write!(f, "provider {provider} answered {status}"),
            Self::Unanswered { message, .. }
            | Self::Resting { message, .. }
            | Self::Provider { message, .. }
            | Self::Unstored { message, .. } => message.fmt(f),
            Self::ToolLoop { limit, .. } => {
                write!(f, "the model still calls tools after {limit} model calls")
            }
            Self::Paused => f.write_str("the turn waits for a person"),
        }
    }
}

impl Error for Fault {}

/// The kind of problem with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFault {
    /// A request that is malformed.
    Invalid,
    /// No or a wrong key.
    Unauthenticated,
    /// A key that may not do this.
    Forbidden,
    /// Something named that does not exist.
    NotFound,
    /// Not with this method.
    Method,
    /// Too much at once.
    TooLarge,
    /// Not as things stand.
    Conflict,
    /// Well formed, and still nothing that can be used.
    Unusable,
}

impl Fault {
    /// A malformed request.
    pub fn invalid(message: impl Into<String>, param: Option<&'static str>) -> Self {
        Self::Request { message: message.into(), param, code: None, kind: RequestFault::Invalid }
    }

    /// The party that has to act on it.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Request { .. } | Self::TooOften { .. } | Self::Refused(_) => Blame::Caller,
            Self::Broken(_) | Self::Unguarded { .. } => Blame::Plugin,
            Self::Answered { .. }
            | Self::Unanswered { .. }
            | Self::Resting { .. }
            | Self::Provider { .. }
            | Self::Misshapen { .. } => Blame::Provider,
            Self::ToolLoop { .. } | Self::Paused | Self::Unstored { .. } | Self::Host(_) => Blame::Host,
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
impl From<Breakage> for Fault {
    fn from(breakage: Breakage) -> Self {
        Self::Broken(breakage)
    }
}
