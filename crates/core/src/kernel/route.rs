//! Another model than the one that was asked for: an inlet may write `body.model`.

use super::{Kernel, ModelSettings, Parts};
use crate::provider::Provider;
use std::sync::Arc;
use valvehouse_json::Json;

/// Knows models by the names clients ask for.
pub trait Routes: Send + Sync {
    /// Where a name leads; None for a name that means nothing here.
    fn route(&self, name: &str) -> Option<Route>;
}

/// Where a model is.
pub struct Route {
    /// Who serves it.
    pub provider: Arc<dyn Provider>,
    /// What is configured for it.
    pub settings: ModelSettings,
}

impl Kernel {
    /// The kernel that goes on with a body whose model was another one before. Filters and tools
    /// stay those of the turn. A name that means nothing here goes to the same provider as it is.
    pub(super) fn rerouted(&self, before: &Json, body: &Json) -> Option<Self> {
        let name = body.text("model").filter(|name| before.as_str() != Some(name.as_str()))?;
        let parts = &*self.0;
        let (provider, settings) = match parts.routes.as_ref().and_then(|routes| routes.route(&name)) {
            Some(Route { provider, settings }) => (Some(provider), settings),
            None => (parts.provider.clone(), ModelSettings { model: None, ..parts.settings.clone() }),
        };
        let ModelSettings { files_handled, hold, .. } = parts.settings;
        Some(Self(Arc::new(Parts {
            chain: parts.chain.clone(),
            toolbox: parts.toolbox.clone(),
            provider,
            settings: ModelSettings { files_handled, hold, ..settings },
            routes: parts.routes.clone(),
        })))
    }
}
