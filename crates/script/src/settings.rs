//! The host's settings for a script.

use crate::declare::schedule::Lists;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::metrics::PluginMetrics;
use valvehouse_core::valve::SecretGroup;
use valvehouse_dialect::budget::Budget;
use valvehouse_dialect::call::resources::{Background, Chats, HostTools, Models};
use valvehouse_grants::Grants;
use valvehouse_json::Json;
use valvehouse_store::{Kv, VectorIndex};

/// The host's settings for a script: values of its valves, budgets, grants and resources.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The valves of the configuration: the file, overridden by the environment.
    pub configured: Json,
    /// The names of the configured values that are text of the environment or the command line, which has no types.
    /// They are converted to the types of their valves; the others must have these types.
    pub untyped_valves: BTreeSet<String>,
    /// The valves of the store.
    pub stored: Json,
    /// The budget of `stream` and `stream_end`.
    pub stream: Budget,
    /// The budget of every other hook.
    pub hook: Budget,
    /// The budget of a tool, which the tool's own timeout also limits.
    pub tool: Budget,
    /// The operator's grants.
    pub grants: Grants,
    /// The metrics of its calls.
    pub metrics: Arc<PluginMetrics>,
    /// The settings of its circuit breaker.
    pub breaker: BreakerSettings,
    /// The key-value store of scripts.
    pub kv: Arc<Kv>,
    /// The vectors of scripts, and the memories of users.
    pub vectors: VectorIndex,
    /// The conversations of users; `None` without a host.
    pub chats: Option<Arc<dyn Chats>>,
    /// The secret valves of all plugins. The output of every plugin is redacted by all of them.
    pub secrets: SecretGroup,
    /// The models that scripts may call; `None` without a host.
    pub models: Option<Arc<dyn Models>>,
    /// The tools of the host; `None` without a host.
    pub tools: Option<Arc<dyn HostTools>>,
    /// The executor of work that scripts leave for after the answer; `None` without a host.
    pub background: Option<Arc<dyn Background>>,
    /// The latest lists that the host got from the script's functions.
    pub lists: Lists,
    /// `true` if the host serves other requests meanwhile. The first calls of a version then run on a separate
    /// thread until they are known to be fast.
    pub is_served: bool,
    /// `true` if calls are held to their budgets; `false` only in benchmarks.
    #[doc(hidden)]
    pub guarded: bool,
}

/// The memory limit of one call, in bytes.
const MEMORY: usize = 64 << 20;

/// The factor on the time budgets of a script whose line coverage is recorded.
const TIME_OF_PROBES: u32 = 4;

/// The default budget of a filter's hook.
const HOOK: Budget = Budget {
    operations: 0,
    time: Duration::ZERO,
    memory: MEMORY,
    wall: Duration::from_secs(30),
    hurries_people: false,
}
.with_operations(1_000_000);

/// The default budget of a tool; its own timeout also limits its time.
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
            untyped_valves: BTreeSet::new(),
            stored: Json::Null,
            stream: HOOK.with_operations(50_000),
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
    /// Returns the settings with larger time budgets, for a script whose line coverage is recorded.
    pub(super) fn with_time_for_probes(&self) -> Self {
        let more = |budget: Budget| Budget { time: budget.time.saturating_mul(TIME_OF_PROBES), ..budget };
        Self { stream: more(self.stream), hook: more(self.hook), tool: more(self.tool), ..self.clone() }
    }
}
