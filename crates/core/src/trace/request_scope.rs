//! The request for which the current task works, so that its log lines can name it.

use super::trace::Trace;
use std::sync::{Arc, OnceLock};
use valvehouse_executor::CARRIED;

/// The trace of a request, once it has started. Work of the request runs in this scope, also on lanes.
#[derive(Debug, Clone, Default)]
pub struct RequestScope(Arc<OnceLock<Arc<Trace>>>);

impl RequestScope {
    /// Runs a future in this scope.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        CARRIED.scope(self.0.clone(), work).await
    }

    /// Calls a function in this scope.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        CARRIED.sync_scope(self.0.clone(), work)
    }

    /// Returns the first trace that started in this scope.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.0.get()
    }

    /// Returns the scope of the current task.
    fn current() -> Option<Self> {
        let carried = CARRIED.try_with(Clone::clone).ok()?;
        carried.downcast().ok().map(Self)
    }

    /// Returns the trace of the request for which the current task works.
    pub fn current_trace() -> Option<Arc<Trace>> {
        Self::current()?.trace().cloned()
    }

    /// Records that a trace started in the current scope.
    pub(super) fn begins(trace: &Arc<Trace>) {
        if let Some(scope) = Self::current() {
            // The traces of a request's parts belong to the first one.
            let _ = scope.0.set(trace.clone());
        }
    }
}
