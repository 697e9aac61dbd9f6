//! A line of the access log.

use tracing::Level;

/// The target of the access log, for log filters.
pub const ACCESS: &str = "valvehouse::access";

/// A request that ended. It has names and numbers, and nothing of the conversation.
#[derive(Debug, Clone, Copy)]
pub struct AccessLine<'a> {
    /// The level: `INFO`, or `DEBUG` for probes, scrapes and the files of the page.
    pub level: Level,
    /// The method.
    pub method: &'a str,
    /// The path, shortened.
    pub path: &'a str,
    /// The status of the answer; `None` if the client disconnected before it.
    pub status: Option<u16>,
    /// The id of the user.
    pub user: Option<&'a str>,
    /// The requested model.
    pub model: Option<&'a str>,
    /// The provider that answered last.
    pub provider: Option<&'a str>,
    /// The name of the key.
    pub key: Option<&'a str>,
    /// The prompt tokens of all model calls.
    pub tokens_in: Option<u64>,
    /// The completion tokens of all model calls.
    pub tokens_out: Option<u64>,
    /// The time to the end of the answer in milliseconds.
    pub ms: u64,
    /// The time to the first part of a streamed answer in milliseconds.
    pub first_ms: Option<u64>,
    /// The plugin that ended the request.
    pub ended_by: Option<&'a str>,
    /// The way in which it did: `refused`, `failed` or `breaker_open`.
    pub outcome: Option<&'a str>,
    /// `true` if the client disconnected before the end.
    pub disconnected: Option<bool>,
    /// The id of the request's trace.
    pub request: Option<&'a str>,
}

/// Receives the lines of the access log, on any thread.
pub type AccessLog = Box<dyn Fn(&AccessLine<'_>) + Send + Sync>;
