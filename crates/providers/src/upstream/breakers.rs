//! The circuit breakers of a provider, one for each model.
//!
//! A breaker counts distinct requests, by a digest of their bodies, instead of distinct callers: one key may
//! stand for a whole company, and a host for one person has one caller. A client that repeats a prompt on
//! which the model fails cannot open the breaker for others.

use compact_str::CompactString;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use valvehouse_core::breaker::{Breaker, BreakerSettings, BreakerState, OpenState};

/// The maximum number of models with their own breaker, because clients choose the names.
const MAX_MODELS: usize = 1_000;

pub(super) struct Breakers {
    provider: String,
    settings: BreakerSettings,
    /// Set once any model has failed. Until then, no breaker is looked up.
    has_failed: AtomicBool,
    models: RwLock<HashMap<CompactString, Arc<Breaker>>>,
}

/// The admission of a call, with the breaker that records its outcome.
pub(super) struct Permit {
    breaker: Option<Arc<Breaker>>,
    pub(super) admission: BreakerState,
}

impl Breakers {
    pub(super) fn new(provider: &str, settings: BreakerSettings) -> Self {
        let (provider, has_failed) = (provider.to_owned(), AtomicBool::new(false));
        Self { provider, settings, has_failed, models: RwLock::default() }
    }

    /// Returns the time for which a model rests.
    pub(super) fn cool_down(&self) -> Duration {
        self.settings.cool_down
    }

    /// Requests admission for a call of a model.
    pub(super) fn admit(&self, model: &str) -> Permit {
        let breaker = match self.has_failed.load(Relaxed) {
            true => self.models.read().get(model).cloned(),
            false => None,
        };
        let admission = breaker.as_ref().map_or(BreakerState::Closed, |breaker| breaker.admit(|| None));
        Permit { breaker, admission }
    }

    /// Records a failure of a model for this request.
    pub(super) fn record_failure(&self, model: &str, cause: &str, request: u64) {
        if self.settings.failure_threshold > 0 {
            self.of(model).record_failure_of(cause, Some(request));
        }
    }

    /// Returns the states of the open breakers, in the order of their models.
    pub(super) fn open(&self) -> Vec<OpenState> {
        if !self.has_failed.load(Relaxed) {
            return Vec::new();
        }
        let models = self.models.read();
        let open = models.iter().filter_map(|(model, breaker)| {
            let open = breaker.open()?;
            let cause = format!("model {model}: {}", open.cause);
            Some(OpenState { cause, ..open })
        });
        let mut open: Vec<OpenState> = open.collect();
        open.sort_by(|one, other| one.cause.cmp(&other.cause));
        open
    }

    fn of(&self, model: &str) -> Arc<Breaker> {
        let mut models = self.models.write();
        self.has_failed.store(true, Relaxed);
        if let Some(known) = models.get(model) {
            return known.clone();
        }
        if models.len() >= MAX_MODELS {
            models.retain(|_, breaker| breaker.open().is_some());
        }
        let breaker = Arc::new(Breaker::of_model(&self.provider, model, self.settings));
        if models.len() < MAX_MODELS {
            models.insert(model.into(), breaker.clone());
        }
        breaker
    }
}

impl Permit {
    /// Records that the provider answered, even with a rejection.
    pub(super) fn record_answer(&self) {
        if let Some(breaker) = &self.breaker {
            breaker.record_success(self.admission);
        }
    }

    /// Returns the breaker of the model.
    pub(super) fn breaker(&self) -> Option<&Breaker> {
        self.breaker.as_deref()
    }
}

/// Returns a digest that distinguishes requests.
pub(super) fn digest(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}
