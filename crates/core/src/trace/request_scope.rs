//! The request for which the current task works, so that its log lines can name it.

use super::trace::Trace;
use compact_str::CompactString;
use std::sync::{Arc, OnceLock};
use valvehouse_executor::CARRIED;

/// The trace of a request, once it has started, and what is known of it before. Work of the request runs in this scope,
/// also on lanes.
#[derive(Debug, Clone, Default)]
pub struct RequestScope(Arc<RequestNames>);

#[derive(Debug, Default)]
struct RequestNames {
    trace: OnceLock<Arc<Trace>>,
    key: OnceLock<CompactString>,
    model: OnceLock<CompactString>,
}

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
        self.0.trace.get()
    }

    /// Returns the name of the key, if it is one that operators handed out.
    pub fn key(&self) -> Option<&str> {
        self.trace().and_then(|trace| trace.key()).or(self.0.key.get().map(CompactString::as_str))
    }

    /// Returns the model that the client named; `None` once there is a trace, which has the model that serves it.
    pub fn named_model(&self) -> Option<&str> {
        self.0.model.get().map(CompactString::as_str).filter(|_| self.trace().is_none())
    }

    /// Records the name of the key of the current request, for a request that is refused before it has a trace.
    pub fn set_key(name: &str) {
        if let Some(scope) = Self::current() {
            // A request has one key.
            let _ = scope.0.key.set(name.into());
        }
    }

    /// Records the model that the client of the current request named.
    pub fn set_named_model(name: &str) {
        if let Some(scope) = Self::current() {
            // Only the first one is the request's own.
            let _ = scope.0.model.set(name.into());
        }
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
            let _ = scope.0.trace.set(trace.clone());
        }
    }
}
