//! A script's callbacks as a listener of an agent.

use super::function::CallbackFunction;
use crate::declare::hooks::Param;
use crate::run::argument::UserValves;
use crate::run::script_call::CallEnd;
use crate::script::Script;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use valvehouse_core::breaker::BreakerState;
use valvehouse_core::callback::{Callback, Listener};
use valvehouse_core::context::Turn;
use valvehouse_core::error::{BoxError, PluginError};
use valvehouse_core::metrics::{CallMetrics, CallOutcome};
use valvehouse_dialect::budget::input_size::attributed;
use valvehouse_dialect::value::{Shape, live};
use valvehouse_executor::{self as executor, ExecutorError, STUCK, Workload};
use valvehouse_json::Json;

/// The callbacks of a script, ready to be called. Clones share their state.
#[derive(Clone)]
pub struct ScriptCallbacks {
    script: Arc<Script>,
    users: Arc<UserValves>,
    /// The metrics of each callback, in the order of the script's callbacks.
    metrics_by_name: Arc<[Arc<CallMetrics>]>,
    /// The number of bytes added to `state` since its size was last checked.
    kept: Arc<AtomicU64>,
}

impl Script {
    /// Returns the events that the script has callbacks for.
    pub fn callbacks(&self) -> impl Iterator<Item = Callback> {
        self.callbacks.iter().map(|function| function.callback)
    }

    /// Returns the script's callbacks; `None` if it has none.
    pub fn into_callbacks(self: Arc<Self>, users: Arc<UserValves>) -> Option<ScriptCallbacks> {
        if self.callbacks.is_empty() {
            return None;
        }
        self.may_leave_work();
        let metrics_by_name =
            self.callbacks.iter().map(|function| self.metrics().of(function.name)).collect();
        Some(ScriptCallbacks { script: self, users, metrics_by_name, kept: Arc::default() })
    }
}

impl ScriptCallbacks {
    /// Calls the callback of an event. `state` is the value of its `state` parameter. Does nothing while the
    /// circuit breaker of the callbacks is open.
    ///
    /// # Errors
    /// Returns an error if the callback failed.
    pub(super) async fn run(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> Result<(), BoxError> {
        let Some(place) = self.script.callbacks().position(|own| own == callback) else { return Ok(()) };
        let breaker = &self.script.listening;
        let admission = breaker.admit(|| None);
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
        let result = apart.unwrap_or_else(|error| Err(error.into()));
        breaker.record(admission, result.as_ref().err(), || None);
        result.map_err(|failure| failure.cause.into())
    }

    fn call(&self, place: usize, event: &Json, state: &Json, turn: &Turn) -> Result<(), PluginError> {
        let CallbackFunction { callback, name, params } = &self.script.callbacks[place];
        if *name != callback.name() {
            // The event is a copy for this listener.
            event.edit("event", *name);
        }
        let args = params.iter().map(|param| match param {
            // Its messages are those of a chat.
            Param::Subject => live(event, Shape::Body),
            Param::State => live(state, Shape::Plain),
            param => self.script.argument(*param, turn, &self.users),
        });
        let timing = self.metrics_by_name[place].begin();
        let (result, spent) = self.script.call_callback(name, args.collect(), turn);
        let result = match result {
            Ok(_) => self.weighed(state, spent.kept).map_err(PluginError::new),
            Err(CallEnd::Rejected(rejection)) => Err(PluginError::new(rejection.message)),
            Err(CallEnd::Broken { failure, summary, limit, .. }) => {
                Err(attributed(failure, &summary, limit, event, 0))
            }
        };
        let ending = if result.is_ok() { CallOutcome::Continued } else { CallOutcome::Failed };
        self.metrics_by_name[place].end(&timing, spent, ending);
        result
    }

    /// Checks the memory limit of `state`. The size is estimated only after the calls have added 4 MiB to it.
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
        self.script.id()
    }

    fn handles(&self, callback: Callback) -> bool {
        self.script.callbacks().any(|own| own == callback)
    }

    fn on_event(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(ScriptCallbacks::run(self, callback, event, state, turn))
    }
}
