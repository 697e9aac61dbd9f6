//! The part of each filter in a request, in the words of the command line and of the page.

use super::plugin::{Plugin, State};
use super::snapshot::{Decision, Snapshot};
use crate::breaker::Open;
use std::sync::Arc;

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
            Decision::Runs if plugin.global => "runs for every model".to_owned(),
            Decision::Runs => format!("listed by the model `{model}`"),
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
