//! The callbacks of a script as a listener of an agent.

use super::function::CallbackFunction;
use crate::argument::UserValves;
use crate::hooks::Param;
use crate::run::CallEnd;
use crate::script::Script;
use crate::value::{Shape, live};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use valvehouse_core::breaker::BreakerState;
use valvehouse_core::callback::{Callback, Listener};
use valvehouse_core::context::Turn;
use valvehouse_core::executor::{self, ExecutorError, STUCK, Workload};
use valvehouse_core::metrics::{CallMetrics, CallOutcome};
use valvehouse_json::Json;

/// A script's callbacks, ready to be called. A clone is the same.
#[derive(Clone)]
pub struct ScriptCallbacks {
    script: Arc<Script>,
    users: Arc<UserValves>,
    /// In the order of the script's callbacks.
    metrics_by_name: Arc<[Arc<CallMetrics>]>,
    /// Bytes its calls have kept since what it keeps was last weighed.
    kept: Arc<AtomicU64>,
}

impl Script {
    /// The moments it listens at.
    pub fn callbacks(&self) -> impl Iterator<Item = Callback> {
        self.callbacks.iter().map(|function| function.callback)
    }

    /// Its callbacks, where it has any.
    pub fn into_callbacks(self: Arc<Self>, users: Arc<UserValves>) -> Option<ScriptCallbacks> {
        if self.callbacks.is_empty() {
            return None;
        }
        self.may_leave_work();
        let metrics_by_name = self.callbacks().map(|callback| self.metrics().of(callback.name())).collect();
        Some(ScriptCallbacks { script: self, users, metrics_by_name, kept: Arc::default() })
    }
}

impl ScriptCallbacks {
    /// The script's id.
    pub fn id(&self) -> &str {
        self.script.id()
    }

    /// The moments it listens at.
    pub fn callbacks(&self) -> impl Iterator<Item = Callback> {
        self.script.callbacks()
    }

    /// Tells it of an event, which becomes its own. `state` is what it finds under that name. Why it failed,
    /// where it did; while it rests since it broke again and again it is not told.
    ///
    /// # Errors
    /// Returns the reason why the callback failed.
    pub(super) async fn hear(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> Result<(), String> {
        let Some(place) = self.callbacks().position(|own| own == callback) else { return Ok(()) };
        let breaker = &self.script.listening;
        let admission = breaker.admit();
        if let BreakerState::Open(_) = admission {
            self.metrics_by_name[place].record_skipped();
            return Ok(());
        }
        let this = self.clone();
        let workload =
            if self.metrics_by_name[place].is_slow() { Workload::CpuBound } else { Workload::Blocking };
        let owner = self.script.caller.plugin.clone();
        let apart =
            executor::run_for(&owner, workload, move || this.call(place, &event, &state, &turn)).await;
        if let Err(ExecutorError::Stuck) = &apart {
            breaker.trip(STUCK);
        }
        let told = apart.unwrap_or_else(|error| Err(error.to_string()));
        match &told {
            Ok(()) => breaker.record_success(admission),
            Err(cause) => breaker.record_failure(cause),
        }
        told
    }

    fn call(&self, place: usize, event: &Json, state: &Json, turn: &Turn) -> Result<(), String> {
        let CallbackFunction { callback, params } = &self.script.callbacks[place];
        let args = params.iter().map(|param| match param {
            Param::Subject => live(event, Shape::Plain),
            Param::State => live(state, Shape::Plain),
            param => self.script.argument(*param, turn, &self.users),
        });
        let timing = self.metrics_by_name[place].begin();
        let (result, spent) = self.script.call_callback(*callback, args.collect(), turn);
        let result = match result {
            Ok(_) => self.weighed(state, spent.kept),
            Err(CallEnd::Rejected(rejection)) => Err(rejection.message),
            Err(CallEnd::Broken { failure, .. }) => Err(failure.cause),
        };
        let ending = if result.is_ok() { CallOutcome::Continued } else { CallOutcome::Failed };
        self.metrics_by_name[place].end(&timing, spent, ending);
        result
    }

    /// Fails if it keeps more than it may. It is weighed now and then, when it may have become more.
    fn weighed(&self, state: &Json, kept: u64) -> Result<(), String> {
        const WEIGHING_THRESHOLD: u64 = 4 << 20;
        let most = self.script.settings.hook.memory;
        if kept == 0 || self.kept.fetch_add(kept, Relaxed) + kept < WEIGHING_THRESHOLD {
            return Ok(());
        }
        self.kept.store(0, Relaxed);
        let is_fine = state.size_estimate() <= most;
        is_fine.then_some(()).ok_or_else(|| format!("exceeded its limit of {} MB in `state`", most >> 20))
    }
}

impl Listener for ScriptCallbacks {
    fn name(&self) -> &str {
        self.id()
    }

    fn hears(&self, callback: Callback) -> bool {
        self.callbacks().any(|own| own == callback)
    }

    fn hear(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(ScriptCallbacks::hear(self, callback, event, state, turn))
    }
}
