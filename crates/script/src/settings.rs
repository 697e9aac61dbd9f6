//! The host's settings of a script.

use super::budget::Budget;
use super::resources::{Background, Chats, HostTools, Models};
use super::schedule::Lists;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_config::Grants;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::metrics::PluginMetrics;
use valvehouse_core::valve::SecretGroup;
use valvehouse_json::Json;
use valvehouse_store::{Kv, VectorIndex};

/// The host's settings of a script: values for its valves, and its budgets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From the configuration file.
    pub configured: Json,
    /// From the store.
    pub stored: Json,
    /// For `stream` and `stream_end`.
    pub stream: Budget,
    /// For every other filter hook.
    pub hook: Budget,
    /// For a tool, whose own timeout comes on top.
    pub tool: Budget,
    /// The operator's grants.
    pub grants: Grants,
    /// The sum of the costs of its calls.
    pub metrics: Arc<PluginMetrics>,
    /// The settings of its circuit breaker.
    pub breaker: BreakerSettings,
    /// The scripts' own maps.
    pub kv: Arc<Kv>,
    /// The vectors of scripts, and the memories of users.
    pub vectors: VectorIndex,
    /// The conversations of users; None where no host runs.
    pub chats: Option<Arc<dyn Chats>>,
    /// The secret valves of all plugins, none of which is shown by any of them.
    pub secrets: SecretGroup,
    /// The models for scripts; None where no host runs.
    pub models: Option<Arc<dyn Models>>,
    /// The tools of the host; None where no host runs.
    pub tools: Option<Arc<dyn HostTools>>,
    /// Does what scripts leave for the time when a client has its answer; None where no host runs.
    pub background: Option<Arc<dyn Background>>,
    /// The lists that its functions returned when the host called them last.
    pub lists: Lists,
    /// Set if a host serves other requests meanwhile. The first calls of a version then run on a thread of their own
    /// until they are known to be fast.
    pub is_served: bool,
    /// `true` if calls are held to their budgets; off only to measure the cost of that.
    #[doc(hidden)]
    pub guarded: bool,
}

/// The bytes that one call may hold at a time.
const MEMORY: usize = 64 << 20;

/// The factor for the time of a script whose lines are noted.
const TIME_OF_PROBES: u32 = 4;

/// The default budget of a filter's hook.
const HOOK: Budget = Budget {
    operations: 1_000_000,
    time: Duration::from_millis(100),
    memory: MEMORY,
    wall: Duration::from_secs(30),
    hurries_people: false,
};

/// The budget of a tool; its own timeout bounds its time.
const TOOL: Budget = Budget {
    operations: 10_000_000,
    time: Duration::MAX,
    memory: MEMORY,
    wall: Duration::MAX,
    hurries_people: true,
};

impl Default for Settings {
    fn default() -> Self {
        Self {
            configured: Json::Null,
            stored: Json::Null,
            stream: Budget { operations: 50_000, time: Duration::from_millis(5), ..HOOK },
            hook: HOOK,
            tool: TOOL,
            grants: Grants::default(),
            metrics: Arc::default(),
            breaker: BreakerSettings::default(),
            kv: Arc::default(),
            vectors: VectorIndex::default(),
            chats: None,
            secrets: SecretGroup::default(),
            models: None,
            tools: None,
            background: None,
            lists: Lists::default(),
            is_served: false,
            guarded: true,
        }
    }
}

impl Settings {
    /// The same with more running time, for a script that notes each line it runs.
    pub(super) fn with_time_for_probes(&self) -> Self {
        let more = |budget: Budget| Budget { time: budget.time.saturating_mul(TIME_OF_PROBES), ..budget };
        Self { stream: more(self.stream), hook: more(self.hook), tool: more(self.tool), ..self.clone() }
    }
}
