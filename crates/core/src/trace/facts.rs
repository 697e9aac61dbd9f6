//! The parts of a request that its trace keeps: its endpoint's facts, its end, lines of the log, events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

/// Characters that are kept of a name or a reason: clients and scripts may make them as long as they like.
pub(super) const MAX_LENGTH: usize = 2_000;
/// The most bytes of the facts of a turn that are kept; of larger ones nothing.
pub(super) const MAX_FACTS: usize = 1 << 20;

/// A text as far as it is kept.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_LENGTH) {
        Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], text.len()),
        None => text.to_owned(),
    }
}

/// A request as its door knows it at its beginning.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// `chat`, `messages`, `agents`, `inlet`, `outlet`, `try`.
    pub door: &'static str,
    /// The model that is asked.
    pub model: String,
    /// Set if the answer is streamed.
    pub stream: bool,
    /// The user's id, "" where nobody knows.
    pub user: String,
    /// The conversation, "" where there is none.
    pub chat_id: String,
    /// The generation that answers.
    pub generation: u64,
}

impl RequestFacts {
    /// Returns `true` if a client asks a model: neither an operator's dry run nor a tool's test.
    pub(super) fn is_of_client(&self) -> bool {
        !self.model.is_empty() && !matches!(self.door, "try" | "test")
    }
}

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestEnd {
    /// The status of its answer; 0 where the client went away before there was one.
    pub status: u16,
    /// The reason for which it failed, where it did.
    pub error: Option<String>,
    /// Set if the client received the whole answer.
    pub whole: bool,
    /// From its begin.
    pub took: Duration,
}

/// The plugins whose values are kept.
#[derive(Debug, Clone, Default)]
pub enum Contents {
    /// Values of no plugin.
    #[default]
    None,
    /// Those of these plugins.
    Of(Arc<BTreeSet<String>>),
    /// Values of all plugins.
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
    /// From the begin of the request.
    pub at: Duration,
    /// The plugin that wrote it, or the provider that it is about.
    pub plugin: String,
    /// `debug info warn error`
    pub level: &'static str,
    /// The text; `None` without contents.
    pub text: Option<String>,
}

/// An event that a script emitted.
#[derive(Debug, Clone)]
pub struct EventRecord {
    /// From the begin of the request.
    pub at: Duration,
    /// The plugin that emitted it.
    pub plugin: String,
    /// Its type.
    pub kind: String,
    /// All of it; None without contents.
    pub event: Option<Json>,
}
