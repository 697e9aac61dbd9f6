//! Filters that refuse requests in the place of guards that cannot run and of filters that do not exist.

use std::sync::Arc;
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_core::filter::{FilterContext, FilterEntry, Hook, HookRunner, Hooks, Verdict};

/// Stands in the place of a guard that cannot run: refuses rather than lets anything by.
struct Refuser(String);

impl HookRunner for Refuser {
    fn run(&self, _: Hook, _: &mut FilterContext) -> Result<Verdict, PluginError> {
        Ok(Verdict::Reject(Rejection::new(self.0.clone()).with_status(503)))
    }
}

/// In place of a filter that a model lists and that does not exist: it may be the one that guards the model.
pub(crate) fn absent(id: &str, model: &str) -> FilterEntry {
    refuser(&id.into(), absence(id, model))
}

/// Returns the reason for which requests are refused for a model that lists a filter which does not exist.
pub(crate) fn absence(id: &str, model: &str) -> String {
    format!(
        "the model `{model}` lists the filter `{id}`, which does not exist; an operator has to add the filter, or correct `filters` of that model"
    )
}

/// Returns a filter that refuses every request with this message.
pub(crate) fn refuser(id: &Arc<str>, message: String) -> FilterEntry {
    let hooks = Hooks::default().with(Hook::Inlet).with(Hook::PreChat).with(Hook::PreInvocation);
    // Before every other filter: nothing shall happen on the way to a refusal.
    FilterEntry::new(id.clone(), hooks, Arc::new(Refuser(message))).priority(f64::NEG_INFINITY)
}
