//! What an agent runs with.

use crate::callbacks::Callbacks;
use std::sync::Arc;
use valvehouse_core::callback::Listener;
use valvehouse_core::context::TurnFacts;
use valvehouse_core::kernel::Kernel;
use valvehouse_json::Json;

/// What a run runs with.
pub struct Setup {
    /// The agent: a model's name in the configuration.
    pub id: String,
    /// Filters, tools and provider, the middleware's among them.
    pub kernel: Kernel,
    /// What scripts see of the model.
    pub model: Json,
    /// What scripts see of all models.
    pub models: Json,
    /// Its name, for callbacks.
    pub name: String,
    /// Closures that are told what it does.
    pub callbacks: Callbacks,
    /// Scripts that are told.
    pub listeners: Vec<Arc<dyn Listener>>,
}

impl Setup {
    /// What a turn that goes on knows of the models.
    pub(super) fn known(&self) -> TurnFacts {
        TurnFacts { model: self.model.clone(), models: self.models.clone(), ..TurnFacts::default() }
    }
}
