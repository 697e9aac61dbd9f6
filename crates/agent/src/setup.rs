//! The settings of an agent's runs.

use crate::callbacks::Callbacks;
use std::sync::Arc;
use valvehouse_core::callback::Listener;
use valvehouse_core::context::{Exchange, TurnFacts};
use valvehouse_core::kernel::Kernel;
use valvehouse_json::Json;

/// The parts that a run runs with.
pub struct Setup {
    /// The agent: a model's name in the configuration.
    pub id: String,
    /// Filters, tools and provider, the middleware's among them.
    pub kernel: Kernel,
    /// The model, as scripts see it.
    pub model: Json,
    /// All models, as scripts see them.
    pub models: Json,
    /// Its name, for callbacks.
    pub name: String,
    /// Closures that are told what it does.
    pub callbacks: Callbacks,
    /// Scripts that are told.
    pub listeners: Vec<Arc<dyn Listener>>,
    /// The outer side of the request that goes on with a run; one that begins has its own in its facts.
    pub exchange: Option<Arc<Exchange>>,
}

impl Setup {
    /// The facts about models that a resumed turn knows.
    pub(super) fn known(&self) -> TurnFacts {
        TurnFacts {
            model: self.model.clone(),
            models: self.models.clone(),
            exchange: self.exchange.clone(),
            ..TurnFacts::default()
        }
    }
}
