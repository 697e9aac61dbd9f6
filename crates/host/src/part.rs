//! The part of each filter in a request, in the words of the command line and of the page.

use super::plugin::{Plugin, State, absence};
use super::snapshot::{Decision, Snapshot};
use std::sync::Arc;
use valvehouse_core::breaker::Open;
use valvehouse_core::filter::{Filter, Hook};

/// A filter's part in the requests of a model.
#[derive(Debug, Clone)]
pub struct Part {
    /// The filter.
    pub plugin: Arc<Plugin>,
    /// Whether it runs.
    pub decision: Decision,
    /// Since when it rests, where it would run and does not.
    pub rests: Option<Open>,
    /// Why it runs, or does not.
    pub reason: String,
}

impl Part {
    /// What programs call it.
    pub fn word(&self) -> &'static str {
        if self.rests.is_some() { "rests" } else { self.decision.word() }
    }

    /// Whether requests go through it.
    pub fn runs(&self) -> bool {
        self.decision == Decision::Runs
    }
}

impl Decision {
    /// What programs call it.
    pub fn word(&self) -> &'static str {
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
            Self::Silent => "silent",
        }
    }
}

impl Snapshot {
    /// The filters in running order with their parts in the requests of a model; `rests` says which of them
    /// rest.
    pub fn parts(&self, model: &str, asked: &[String], rests: impl Fn(&Plugin) -> Option<Open>) -> Vec<Part> {
        let explained = self.explain(model, asked).into_iter();
        let parts = explained.map(|(plugin, decision)| {
            let rests = rests(&plugin).filter(|_| decision == Decision::Runs);
            let reason = match &rests {
                Some(open) => format!("{}; last: {}", plugin.rests_in_words(open), open.cause),
                None => self.reason(&plugin, &decision, model),
            };
            Part { plugin, decision, rests, reason }
        });
        parts.collect()
    }

    fn reason(&self, plugin: &Plugin, decision: &Decision, model: &str) -> String {
        let id = &plugin.id;
        match decision {
            Decision::Runs if matches!(plugin.state, State::Stale(_)) => {
                format!("its last good version runs: see valvehouse check {id}")
            }
            Decision::Runs => {
                let why = match plugin.global {
                    true => "runs for every model".to_owned(),
                    false => format!("listed by the model `{model}`"),
                };
                let has_memory = self.plan().models.iter().any(|plan| plan.name == model && plan.memory);
                let listens =
                    plugin.script.as_ref().is_some_and(|script| script.callbacks().next().is_some());
                match listens && !has_memory {
                    true => format!("{why}; its callbacks are not called, since the model has no `memory`"),
                    false => why,
                }
            }
            Decision::Refuses(why) => format!("refuses every request: {why}"),
            Decision::Off if !self.plan().plugin(plugin.kind, id).enabled => {
                format!("switched off: [filters.{id}] enabled = false")
            }
            Decision::Off => "switched off by an operator".to_owned(),
            Decision::NotListed => format!("not global, and the model `{model}` does not list it"),
            Decision::NotAskedFor => {
                format!("a toggle: only for requests that ask for it with \"filter_ids\": [\"{id}\"]")
            }
            Decision::Broken => format!("has never loaded: see valvehouse check {id}"),
            Decision::ForTools(tools) => format!("runs around these tools only: {}", tools.join(", ")),
            Decision::Silent => {
                format!("has callbacks alone, and the model `{model}` has no `memory`: nobody calls them")
            }
            Decision::NoHooks => "has no hooks, so that there is nothing to run".to_owned(),
            Decision::Idle => {
                let needs = plugin.needs();
                let first = needs.first().map_or("VALVE", |name| name.as_str());
                format!(
                    "does nothing until it is configured: set {} with valvehouse valves set {id} {first}=…",
                    needs.join(" or ")
                )
            }
        }
    }
}

/// A filter of a model's chain that is the host's own.
pub struct HostPart {
    /// The name of the part in traces.
    pub id: String,
    /// Its place in the chain.
    pub priority: f64,
    /// The hooks it acts at.
    pub hooks: Vec<&'static str>,
    /// Why requests are refused by it; none where it runs.
    pub refuses: Option<String>,
    /// A description of the part: its role, or the cause of its refusals.
    pub reason: String,
}

impl Snapshot {
    /// The host's own filters in the chain of a model, in running order.
    pub fn host_parts(&self, model: &str, asked: &[String]) -> Vec<HostPart> {
        let plan = self.plan().models.iter().find(|plan| plan.name == model);
        let is_absent = |name: &str| plan.is_some_and(|plan| plan.filters.iter().any(|id| id == name));
        let is_middleware =
            |name: &str| plan.is_some_and(|plan| plan.middleware.iter().any(|own| own.name() == name));
        let part = |filter: Filter| {
            let refuses = is_absent(filter.name()).then(|| absence(filter.name(), model));
            let reason = match &refuses {
                Some(why) => format!("refuses every request: {why}"),
                None if is_middleware(filter.name()) => format!("middleware of the model `{model}`"),
                None => "tells those who listen to agents".to_owned(),
            };
            HostPart {
                id: filter.name().to_owned(),
                priority: filter.place(),
                hooks: filter.hooks().iter().map(Hook::name).collect(),
                refuses,
                reason,
            }
        };
        self.host_filters(model, asked).into_iter().map(part).collect()
    }
}
