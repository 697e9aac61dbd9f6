//! The endpoints other than chats that filters cover.

use crate::decision::FilterDecision;
use crate::plugin::Plugin;
use crate::snapshot::Snapshot;
use valvehouse_core::filter::Chain;
use valvehouse_script::{CHAT, Kind, Manifest};

/// The name of the endpoint for embeddings.
pub(crate) const EMBEDDINGS: &str = "embeddings";

/// Returns `true` if a plugin with this manifest runs at an endpoint.
pub(crate) fn covers(manifest: &Manifest, endpoint: &str) -> bool {
    match manifest.endpoints.as_slice() {
        [] => endpoint == CHAT,
        listed => listed.iter().any(|own| own == endpoint),
    }
}

impl Plugin {
    /// Returns `true` if the plugin runs at an endpoint. A guard that cannot be read rejects requests at
    /// every endpoint.
    pub fn covers(&self, endpoint: &str) -> bool {
        match &self.script {
            Some(script) => covers(&script.manifest, endpoint),
            None => endpoint == CHAT || self.refusal().is_some(),
        }
    }

    /// Returns the endpoints at which the plugin runs.
    pub fn endpoints(&self) -> Vec<&str> {
        match self.script.as_ref().map(|script| script.manifest.endpoints.as_slice()) {
            None | Some([]) => vec![CHAT],
            Some(listed) => listed.iter().map(String::as_str).collect(),
        }
    }
}

impl Snapshot {
    /// Returns `true` if any filter may run at an endpoint.
    pub fn covers(&self, endpoint: &str) -> bool {
        self.filters().any(|plugin| {
            plugin.enabled
                && (plugin.covers(endpoint)
                    || matches!(self.decide(plugin, &[], &[]), FilterDecision::Refuses(_)))
        })
    }

    /// Returns `true` for a guard that the predicate matches, and for a filter that a model lists and that does not
    /// exist.
    fn is_guard(&self, id: &str, is_wanted: impl FnOnce(&Plugin) -> bool) -> bool {
        match self.plugins.get(id).filter(|plugin| plugin.kind == Kind::Filter) {
            Some(plugin) => plugin.security && !plugin.audited && is_wanted(plugin),
            None => self.plan().models.iter().any(|plan| plan.filters.iter().any(|own| own == id)),
        }
    }

    /// Returns the guards of a model's chats, and of further guards, that do not run at another endpoint; without a
    /// model, those of all models.
    pub fn blind_guards(&self, endpoint: &str, model: Option<(&str, &[String])>) -> Vec<String> {
        let is_blind = |id: &str| self.is_guard(id, |plugin| !plugin.covers(endpoint));
        let chains: Vec<Chain> = match model {
            Some((name, more)) => vec![self.covering(CHAT, name, more)],
            None => {
                let all = self.plan().models.iter().map(Some).chain([None]);
                all.map(|plan| self.select(plan, &[]).chain).collect()
            }
        };
        let names = chains.into_iter().flat_map(|chain| {
            chain.filters().iter().map(|filter| filter.name().to_owned()).collect::<Vec<_>>()
        });
        let mut blind: Vec<String> = names.filter(|id| is_blind(id)).collect();
        blind.sort();
        blind.dedup();
        blind
    }

    /// Returns the chain of an endpoint other than chats for a model.
    /// `more` are the ids of further guards.
    pub fn covering(&self, endpoint: &str, model: &str, more: &[String]) -> Chain {
        self.select_named_at(endpoint, model, &[], more).chain
    }

    /// Returns the chain of an endpoint other than chats for a request to a provider that names no model.
    pub fn covering_unnamed(&self, endpoint: &str, provider: &str) -> Chain {
        self.select_unnamed_at(endpoint, provider).chain
    }
}
