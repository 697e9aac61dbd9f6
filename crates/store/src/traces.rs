//! The types of stored requests.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use valvehouse_json::Json;

/// The maximum number of characters of a stored name; longer ones are cut.
const MAX_NAME: usize = 200;

/// A request that ended.
#[derive(Debug, Clone, Default)]
pub struct StoredTrace {
    /// The place among all requests.
    pub at: TraceCursor,
    /// The name of the key; empty if there is none.
    pub key: String,
    /// The id of the user; empty if unknown.
    pub user: String,
    /// The requested model.
    pub model: String,
    /// The HTTP status; 0 if there was none.
    pub status: u64,
    /// The way in which it ended; empty while it runs.
    pub outcome: String,
    /// The time to its end in milliseconds.
    pub took_ms: u64,
    /// The plugins that were called.
    pub plugins: Vec<String>,
    /// The facts that lists show, an object.
    pub facts: Json,
    /// The steps, lines and events, an object.
    pub steps: Json,
}

/// The place of a request among all: the microseconds since 1970 at which it began, and its id.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceCursor {
    /// The microseconds.
    pub us: i64,
    /// The id.
    pub id: String,
}

/// The error of a text that is not a place among requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid cursor: expected the `next` of a list of requests")]
pub struct TraceCursorError;

impl fmt::Display for TraceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.us, self.id)
    }
}

impl FromStr for TraceCursor {
    type Err = TraceCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (us, id) = text.split_once('.').ok_or(TraceCursorError)?;
        Ok(Self { us: us.parse().map_err(|_| TraceCursorError)?, id: id.to_owned() })
    }
}

/// A selection of requests.
#[derive(Debug, Clone, Default)]
pub struct TraceFilter {
    /// Only those of the key with this name.
    pub key: Option<String>,
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those to this model.
    pub model: Option<String>,
    /// Only those that called this plugin.
    pub plugin: Option<String>,
    /// Only those whose HTTP status is between these two, or one of them.
    pub status: Option<[u64; 2]>,
    /// Only those that ended in this way.
    pub outcome: Option<String>,
    /// `true` for those that failed, `false` for all others.
    pub failed: Option<bool>,
    /// Only those that took at least this time in milliseconds.
    pub min_ms: Option<u64>,
    /// Only those that began at this time or later, in microseconds since 1970.
    pub from: Option<i64>,
    /// Only those that began before this time.
    pub to: Option<i64>,
    /// Only those that follow this one, and are older.
    pub before: Option<TraceCursor>,
}

impl TraceFilter {
    /// Returns `true` for a selected request.
    pub fn selects(&self, trace: &StoredTrace) -> bool {
        let is = |wanted: &Option<String>, own: &str| {
            wanted.as_deref().is_none_or(|wanted| stored_name(wanted) == stored_name(own))
        };
        let has_failed = !SUCCESSFUL.contains(&trace.outcome.as_str());
        is(&self.key, &trace.key)
            && is(&self.user, &trace.user)
            && is(&self.model, &trace.model)
            && is(&self.outcome, &trace.outcome)
            && self.plugin.as_ref().is_none_or(|plugin| trace.plugins.contains(plugin))
            && self.status.is_none_or(|[first, last]| (first..=last).contains(&trace.status))
            && self.failed.is_none_or(|failed| failed == has_failed)
            && self.min_ms.is_none_or(|least| trace.took_ms >= least)
            && self.from.is_none_or(|from| trace.at.us >= from)
            && self.to.is_none_or(|to| trace.at.us < to)
            && self.before.as_ref().is_none_or(|before| trace.at < *before)
    }
}

/// The ways in which a request ends or runs that has not failed.
pub(crate) const SUCCESSFUL: [&str; 2] = ["succeeded", ""];

/// Returns a name as it is stored and searched for: clients choose its length, and databases accept no NUL.
pub fn stored_name(name: &str) -> Cow<'_, str> {
    match name.len() > MAX_NAME || name.as_bytes().contains(&0) {
        true => name.chars().filter(|letter| *letter != '\0').take(MAX_NAME).collect(),
        false => name.into(),
    }
}
