//! The contents of a trace: facts about the request, its end, log lines and events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

/// The maximum number of characters recorded of a name or a reason, because clients and scripts choose their
/// length.
pub(super) const MAX_LENGTH: usize = 2_000;
/// The maximum number of bytes of contents held for all finished requests; the oldest ones are removed first.
pub(super) const MAX_CONTENTS: usize = 64 << 20;
/// The maximum size of a turn's recorded facts, in bytes; larger ones are not recorded.
pub(super) const MAX_FACTS: usize = 1 << 20;

/// Returns a text, truncated to the recorded length.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_LENGTH) {
        Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], text.len()),
        None => text.to_owned(),
    }
}

/// The facts about a request that are known at its start.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// The kind of endpoint: `chat`, `messages`, `agents`, `inlet`, `outlet` or `try`.
    pub endpoint: &'static str,
    /// The requested model.
    pub model: String,
    /// Set if the answer is streamed.
    pub stream: bool,
    /// The user's id; "" if unknown.
    pub user: String,
    /// The id of the conversation; "" if there is none.
    pub chat_id: String,
    /// The generation of plugins that handles the request.
    pub generation: u64,
}

impl RequestFacts {
    /// Returns `true` if a client requests a model, as opposed to an operator's dry run or a test of a tool.
    pub(super) fn is_of_client(&self) -> bool {
        !self.model.is_empty() && !matches!(self.endpoint, "try" | "test")
    }
}

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestEnd {
    /// The HTTP status; 0 if the client disconnected before there was one.
    pub status: u16,
    /// The error message, if the request failed.
    pub error: Option<String>,
    /// Set if the client received the whole answer.
    pub whole: bool,
    /// The time since the start of the request.
    pub took: Duration,
}

/// The plugins whose values are recorded.
#[derive(Debug, Clone, Default)]
pub enum Contents {
    /// No values are recorded.
    #[default]
    None,
    /// The values of these plugins are recorded.
    Of(Arc<BTreeSet<String>>),
    /// The values of all plugins are recorded.
    All,
}

impl Contents {
    pub(super) fn keeps(&self, plugin: Option<&str>) -> bool {
        match self {
            Self::None => false,
            Self::Of(plugins) => plugin.is_some_and(|plugin| plugins.contains(plugin)),
            Self::All => true,
        }
    }
}

/// A line that a script wrote to the log.
#[derive(Debug, Clone)]
pub struct Line {
    /// The time since the start of the request.
    pub at: Duration,
    /// The plugin that wrote the line, or the provider that it refers to.
    pub plugin: String,
    /// The level: `debug`, `info`, `warn` or `error`.
    pub level: &'static str,
    /// The text; `None` if contents are not recorded.
    pub text: Option<String>,
    /// `true` for a note of the host, whose text is recorded without contents too.
    pub is_note: bool,
}

/// An event that a script emitted.
#[derive(Debug, Clone)]
pub struct EventRecord {
    /// The time since the start of the request.
    pub at: Duration,
    /// The plugin that emitted it.
    pub plugin: String,
    /// The type of the event.
    pub kind: String,
    /// The complete event; `None` if contents are not recorded.
    pub event: Option<Json>,
}
