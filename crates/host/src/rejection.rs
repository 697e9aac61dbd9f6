//! Filters that reject requests in place of guards that cannot run, and of filters that do not exist.

use std::sync::Arc;
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_core::filter::{FilterContext, FilterEntry, Hook, HookRunner, Hooks, Verdict};

/// Rejects every request in place of a guard that cannot run.
struct Refuser(String);

impl HookRunner for Refuser {
    fn run(&self, _: Hook, _: &mut FilterContext) -> Result<Verdict, PluginError> {
        Ok(Verdict::Reject(Rejection::new(self.0.clone()).with_status(503)))
    }
}

/// Returns a filter that rejects every request in place of a listed filter that does not exist: the filter
/// may be a guard.
pub(crate) fn absent(id: &str, model: &str) -> FilterEntry {
    refuser(&id.into(), absence(id, model))
}

/// Returns the reason for rejecting requests of a model that lists an unknown filter.
pub(crate) fn absence(id: &str, model: &str) -> String {
    format!(
        "the model `{model}` lists the filter `{id}`, which does not exist; an operator has to add the filter, or correct `filters` of that model"
    )
}

/// Returns a filter that rejects every request with this message.
pub(crate) fn refuser(id: &Arc<str>, message: String) -> FilterEntry {
    let hooks = Hooks::default().with(Hook::Inlet).with(Hook::PreChat).with(Hook::PreInvocation);
    // It runs before all other filters, so that a rejected request has no effects.
    FilterEntry::new(id.clone(), hooks, Arc::new(Refuser(message))).priority(f64::NEG_INFINITY).guarding(true)
}
