//! The route of a model's name: to a configured provider, or to the scripts that offer models.

use crate::plan::{self, Plan};
use std::sync::Arc;
use valvehouse_config::PIPES;
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{ModelDefaults, Route, Routes};
use valvehouse_core::provider::Provider;
use valvehouse_json::Json;
use valvehouse_script::{Offer, Pipes};

/// A plan's providers and a snapshot's pipes.
pub(super) struct ProviderRoutes {
    pub(super) plan: Arc<Plan>,
    pipes: Arc<Pipes>,
    pipes_as_provider: Arc<dyn Provider>,
}

impl ProviderRoutes {
    pub(super) fn new(plan: Arc<Plan>, pipes: Pipes) -> Self {
        let pipes = Arc::new(pipes);
        Self { plan, pipes_as_provider: pipes.clone(), pipes }
    }

    /// The models that scripts offer.
    pub(super) fn offers(&self) -> Vec<&Offer> {
        self.pipes.offers()
    }

    /// The provider of a configured model.
    pub(super) fn serves<'a>(&'a self, model: &'a plan::ModelPlan) -> Result<&'a Arc<dyn Provider>, Error> {
        if model.provider == PIPES { Ok(&self.pipes_as_provider) } else { self.plan.serves(model) }
    }

    /// The provider of a name that is not configured, and the name it uses. The author of a script there
    /// means it, before a provider that takes any name.
    pub(super) fn passes<'a>(&'a self, name: &'a str) -> Option<(&'a Arc<dyn Provider>, &'a str)> {
        let prefixed = name.strip_prefix(PIPES).and_then(|rest| rest.strip_prefix('/'));
        let own = prefixed.unwrap_or(name);
        if self.offers().iter().any(|offer| offer.id == own) {
            return Some((&self.pipes_as_provider, own));
        }
        self.plan.passes(name).filter(|_| prefixed.is_none())
    }

    /// A model without configuration, as scripts see it.
    pub(super) fn facts(&self, name: &str, provider: &str) -> Json {
        let offers = self.offers();
        let title = offers.iter().find(|offer| provider == PIPES && offer.id == name);
        let facts = plan::passed(name, provider);
        if let Some(offer) = title {
            // A new object takes any value.
            facts.edit("name", offer.name.as_str());
        }
        facts
    }

    /// The models that are known without asking a provider.
    pub(super) fn listed(&self) -> Json {
        let offered = self.offers().into_iter().map(|offer| self.facts(&offer.id, PIPES));
        [self.plan.listed().items(), offered.collect()].concat().into()
    }
}

impl Routes for ProviderRoutes {
    fn route(&self, name: &str) -> Option<Route> {
        if let Some(model) = self.plan.models.iter().find(|model| model.name == name) {
            let provider = self.serves(model).ok()?.clone();
            return Some(Route { provider, settings: model.settings.clone() });
        }
        let (provider, upstream) = self.passes(name)?;
        let model = (upstream != name).then(|| upstream.to_owned());
        let settings = ModelDefaults { model, ..ModelDefaults::default() };
        Some(Route { provider: provider.clone(), settings })
    }
}
