//! The routes of model names: to configured providers, and to scripts that provide models.

use crate::plan::{self, Plan};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use valvehouse_config::PIPES;
use valvehouse_core::error::Error;
use valvehouse_core::filter::Chain;
use valvehouse_core::kernel::{ModelDefaults, Route, Routes};
use valvehouse_core::provider::Provider;
use valvehouse_json::Json;
use valvehouse_script::{Offer, Pipes};

/// The number of models that are not configured whose form for scripts is kept, and the maximum length of their names.
const MAX_PASSED: usize = 100;
const MAX_NAME: usize = 200;

/// The providers of a plan and the models of scripts in a snapshot.
pub(super) struct ProviderRoutes {
    pub(super) plan: Arc<Plan>,
    /// The form for scripts of models that are not configured, by name.
    passed: RwLock<HashMap<String, Json>>,
    pipes: Arc<Pipes>,
    pipes_as_provider: Arc<dyn Provider>,
    /// The filters of models, set once they are selected.
    chains: OnceLock<Chains>,
}

/// The filters of models, and whether they hold streams.
pub(super) struct Chains {
    /// Those of configured models, by name.
    pub(super) models: HashMap<String, (Chain, bool)>,
    /// Those of other names.
    pub(super) passing: (Chain, bool),
}

impl ProviderRoutes {
    pub(super) fn new(plan: Arc<Plan>, pipes: Pipes) -> Self {
        let pipes = Arc::new(pipes);
        let (passed, chains) = (RwLock::default(), OnceLock::new());
        Self { plan, passed, pipes_as_provider: pipes.clone(), pipes, chains }
    }

    /// Sets the filters of models, whose guards join a turn that is routed to them.
    pub(super) fn lead_to(&self, chains: Chains) {
        // Each snapshot sets them once.
        let _ = self.chains.set(chains);
    }

    /// Returns the filters of a name that is not configured, with those of the configured models that it may mean.
    fn chain_of_passed(&self, provider: &str, upstream: &str) -> (Chain, bool) {
        let Some(chains) = self.chains.get() else { return Default::default() };
        let meant = self.plan.meant_by(provider, upstream);
        let meant = meant.into_iter().filter_map(|model| chains.models.get(&model.name));
        meant.fold(chains.passing.clone(), |(chain, holds), (own, own_holds)| {
            (chain.joined(own), holds || *own_holds)
        })
    }

    /// Returns the models that scripts provide.
    pub(super) fn offers(&self) -> Vec<&Offer> {
        self.pipes.offers()
    }

    /// Returns the provider of a configured model.
    pub(super) fn serves<'a>(&'a self, model: &'a plan::ModelPlan) -> Result<&'a Arc<dyn Provider>, Error> {
        if model.provider == PIPES { Ok(&self.pipes_as_provider) } else { self.plan.serves(model) }
    }

    /// Returns the provider of a name that is not configured, and the name at that provider. A model of a
    /// script takes precedence over a provider that passes any name.
    pub(super) fn passes<'a>(&'a self, name: &'a str) -> Option<(&'a Arc<dyn Provider>, &'a str)> {
        let prefixed = name.strip_prefix(PIPES).and_then(|rest| rest.strip_prefix('/'));
        let own = prefixed.unwrap_or(name);
        if self.offers().iter().any(|offer| offer.id == own) {
            return Some((&self.pipes_as_provider, own));
        }
        self.plan.passes(name).filter(|_| prefixed.is_none())
    }

    /// Returns a model that is not configured in the form that scripts see, read-only.
    pub(super) fn facts(&self, name: &str, provider: &str) -> Json {
        if provider == PIPES {
            return self.offered(name).freeze();
        }
        if let Some(known) = self.passed.read().get(name) {
            return known.clone();
        }
        let facts = plan::passed(name, provider).freeze();
        let mut passed = self.passed.write();
        if passed.len() < MAX_PASSED && name.len() <= MAX_NAME {
            passed.insert(name.to_owned(), facts.clone());
        }
        facts
    }

    /// Returns a model of a script in the form that scripts see.
    fn offered(&self, name: &str) -> Json {
        let facts = plan::passed(name, PIPES);
        if let Some(offer) = self.offers().iter().find(|offer| offer.id == name) {
            // The object is new and not read-only.
            facts.edit("name", offer.name.as_str());
        }
        facts
    }

    /// Returns the models that are known without a request to a provider.
    pub(super) fn listed(&self) -> Json {
        let offered = self.offers().into_iter().map(|offer| self.offered(&offer.id));
        [self.plan.listed().items(), offered.collect()].concat().into()
    }
}

impl Routes for ProviderRoutes {
    fn route(&self, name: &str) -> Option<Route> {
        if let Some(model) = self.plan.model(name) {
            let provider = self.serves(model).ok()?.clone();
            let chains = self.chains.get().and_then(|chains| chains.models.get(name));
            let (chain, hold) = chains.cloned().unwrap_or_else(|| (Chain::default(), false));
            return Some(Route {
                provider,
                settings: ModelDefaults { hold, ..model.settings.clone() },
                chain,
            });
        }
        let (provider, upstream) = self.passes(name)?;
        let (chain, hold) = self.chain_of_passed(provider.name(), upstream);
        let model = (upstream != name).then(|| upstream.to_owned());
        let settings = ModelDefaults { model, hold, ..ModelDefaults::default() };
        Some(Route { provider: provider.clone(), settings, chain })
    }
}
