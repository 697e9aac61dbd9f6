//! The models whose requests are all refused, with the reason.

use crate::plan::ModelPlan;
use crate::snapshot::Snapshot;
use std::fmt;
use valvehouse_core::filter::{Chain, FailurePolicy, Hook};
use valvehouse_core::text::optional;

/// The maximum number of names in a sentence.
const SHOWN: usize = 8;

/// Models whose requests are all refused for one reason, whoever sends them.
///
/// Its text is a sentence such as "All requests to `smart` are refused: guard `redact` does not load".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedModels {
    /// The names of the models; empty if the requests to every model are refused.
    models: Vec<String>,
    reason: String,
}

impl fmt::Display for RefusedModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.models.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        let to = if names.is_empty() { "" } else { " to " };
        let more =
            optional(self.models.len().checked_sub(SHOWN + 1), |more| format!(" and {} more", more + 1));
        write!(f, "All requests{to}{}{more} are refused: {}", names.join(", "), self.reason)
    }
}

impl Snapshot {
    /// Returns the configured models whose requests are all refused because a filter is missing, does not load or has an
    /// open circuit breaker; a row for each reason.
    pub fn refused_models(&self) -> Vec<RefusedModels> {
        let mut rows: Vec<RefusedModels> = Vec::new();
        for model in &self.plan().models {
            let Some(reason) = self.refusal_of_model(model) else { continue };
            match rows.iter_mut().find(|row| row.reason == reason) {
                Some(row) => row.models.push(model.name.clone()),
                None => rows.push(RefusedModels { models: vec![model.name.clone()], reason }),
            }
        }
        if self.plan().models.is_empty() {
            let reason = self.refusal_in(self.passing_chain());
            rows.extend(reason.map(|reason| RefusedModels { models: Vec::new(), reason }));
        }
        rows
    }

    /// Returns the reason why all requests to a model are refused, if they are; `None` as well for an unknown model.
    pub fn refused_model(&self, name: &str) -> Option<RefusedModels> {
        let configured = self.plan().model(name);
        let reason = match configured {
            Some(model) => self.refusal_of_model(model),
            None => self.refusal_in(&self.select_for(name, &[]).chain),
        };
        Some(RefusedModels { models: vec![name.to_owned()], reason: reason? })
    }

    /// Returns the ids of the guards that run in the chats of a model, in audit mode or not.
    pub fn guards_for(&self, name: &str) -> Vec<String> {
        let selected;
        let chain = match self.chain_of(name) {
            Some(chain) => chain,
            None => {
                selected = self.select_for(name, &[]);
                &selected.chain
            }
        };
        let names = chain.filters().iter().map(|filter| filter.name());
        let is_guard = |name: &&str| self.plugins.get(*name).is_some_and(|plugin| plugin.security);
        names.filter(is_guard).map(str::to_owned).collect()
    }

    fn refusal_of_model(&self, model: &ModelPlan) -> Option<String> {
        let absent = self.absent(&model.filters).next();
        let absent = absent.map(|id| format!("filter `{id}` does not exist"));
        absent.or_else(|| self.refusal_in(self.chain_of(&model.name)?))
    }

    /// Returns the reason why a filter of a chain refuses every request.
    fn refusal_in(&self, chain: &Chain) -> Option<String> {
        chain.filters().iter().find_map(|filter| {
            let plugin = self.plugins.get(filter.name())?;
            if let Some((cause, _)) = plugin.refusal_cause() {
                return Some(format!("guard `{}` {cause}", plugin.id));
            }
            let script = plugin.script.as_ref()?;
            if plugin.audited {
                return None;
            }
            let is_called =
                script.hooks().any(|hook| !matches!(hook, Hook::PreInvocation | Hook::PostInvocation));
            let refuses = is_called && script.manifest.failure_policy == FailurePolicy::FailClosed;
            // Once a call may be tried again, only a request can close the breaker.
            plugin.open_breaker().filter(|open| refuses && !open.next_try.is_zero())?;
            let kind = if plugin.security { "guard" } else { "filter" };
            Some(format!("the circuit breaker of {kind} `{}` is open", plugin.id))
        })
    }
}
