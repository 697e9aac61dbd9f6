//! The decision on a filter for a request.

/// The decision whether a filter runs for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterDecision {
    /// The filter runs.
    Runs,
    /// The filter is a guard that cannot run: the request is rejected for this reason.
    Refuses(String),
    /// An operator disabled the filter.
    Off,
    /// The filter is not global, and the model does not list it.
    NotListed,
    /// The filter is a toggle that the request does not enable.
    NotSelected,
    /// The filter has never loaded.
    Broken,
    /// The filter has no hooks and no callbacks.
    NoHooks,
    /// The filter does nothing until one of its valves is set.
    Idle,
    /// The filter runs for calls of these tools only.
    ForTools(Vec<String>),
    /// The filter runs only at these endpoints, which do not include chats.
    Elsewhere(Vec<String>),
}

impl FilterDecision {
    /// Returns the name of the decision in the API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Refuses(_) => "refuses",
            Self::Off => "off",
            Self::NotListed => "not_listed",
            Self::NotSelected => "not_asked_for",
            Self::Broken => "broken",
            Self::NoHooks => "no_hooks",
            Self::Idle => "idle",
            Self::ForTools(_) => "tools",
            Self::Elsewhere(_) => "elsewhere",
        }
    }
}
