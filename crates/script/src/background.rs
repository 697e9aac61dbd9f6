//! Calls of a script for which no request waits: behind an answer, and from time to time.

use super::budget::Budget;
use super::run::Ended;
use super::script::Script;
use rhai::EvalAltResult;
use std::sync::Arc;
use valvehouse_core::breaker::Admission;
use valvehouse_core::context::Turn;
use valvehouse_core::figures::Ending;
use valvehouse_core::lanes::{self, LaneError, Pace, STUCK};
use valvehouse_core::trace::What;
use valvehouse_json::Json;

impl Script {
    /// Does a piece of work on a lane, within a budget. The failures that its breaker counts refuse no request.
    pub(super) async fn call_in_background<T: Send + 'static>(
        self: Arc<Self>,
        name: &'static str,
        budget: Budget,
        turn: Turn,
        job: impl FnOnce(&Self, &Turn) -> Result<T, Box<EvalAltResult>> + Send + 'static,
    ) -> Result<T, String> {
        let tally = self.figures().of(name);
        let breaker = self.behind.breaker.clone();
        let admission = breaker.admit();
        if let Admission::Rests(rest) = admission {
            tally.rests();
            return Err(breaker.refusal(rest).message);
        }
        let pace = if tally.is_slow() { Pace::Slow } else { Pace::Waits };
        let owner = self.caller.plugin.clone();
        let (this, own) = (self.clone(), turn.clone());
        let worked = lanes::run_for(&owner, pace, move || this.do_job(name, budget, &own, job)).await;
        if let Err(LaneError::Stuck) = &worked {
            breaker.trip(STUCK);
        }
        let worked = worked.unwrap_or_else(|error| Err(error.to_string()));
        match &worked {
            Ok(_) => breaker.went_well(admission),
            Err(cause) => breaker.broke(cause),
        }
        // What it stored with `durable` is on disk before it counts as done.
        let flushed = turn.flush().await.map_err(|fault| fault.to_string());
        worked.and_then(|value| flushed.map(|()| value))
    }

    fn do_job<T>(
        &self,
        name: &'static str,
        budget: Budget,
        turn: &Turn,
        job: impl FnOnce(&Self, &Turn) -> Result<T, Box<EvalAltResult>>,
    ) -> Result<T, String> {
        let tally = self.figures().of(name);
        let step = turn.trace().map(|trace| trace.begin(What::Hook(&self.caller.plugin, name), &Json::Null));
        let timing = tally.begin();
        let (result, spent) = self.call_behind(name, turn, budget, || job(self, turn));
        if let Some(trace) = turn.trace() {
            trace.spend(name, self.id(), spent);
        }
        let result = result.map_err(|ended| match ended {
            Ended::Refused(refusal) => refusal.message,
            Ended::Broken { breakage, .. } => breakage.cause,
        });
        tally.end(&timing, spent, if result.is_ok() { Ending::Continued } else { Ending::Broken });
        if let Some(step) = step {
            let (word, cause) = match &result {
                Ok(_) => ("continue", None),
                Err(cause) => ("broke", Some(cause.as_str())),
            };
            step.end(word, cause, None);
        }
        result
    }
}
