//! The decision on a filter for a request.

/// The decision on a filter for a request: it runs, or the reason why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterDecision {
    /// It runs.
    Runs,
    /// It cannot run and is a guard: the request is refused.
    Refuses(String),
    /// An operator switched it off.
    Off,
    /// It is not global and the model does not list it.
    NotListed,
    /// It is a toggle and the request does not ask for it.
    NotAskedFor,
    /// It never loaded.
    Broken,
    /// It has no hooks, and no callbacks.
    NoHooks,
    /// It does nothing until one of its valves is set.
    Idle,
    /// It runs around these tools only.
    ForTools(Vec<String>),
    /// It runs at other endpoints than chats only.
    Elsewhere(Vec<String>),
}

impl FilterDecision {
    /// Returns its name for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Refuses(_) => "refuses",
            Self::Off => "off",
            Self::NotListed => "not_listed",
            Self::NotAskedFor => "not_asked_for",
            Self::Broken => "broken",
            Self::NoHooks => "no_hooks",
            Self::Idle => "idle",
            Self::ForTools(_) => "tools",
            Self::Elsewhere(_) => "elsewhere",
        }
    }
}
