//! Calling a compiled script: one function, within its budget.

use super::answer::Thrown;
use super::budget::{Budget, Guard};
use super::call::{Running, redacted};
use super::compile::Script;
use super::interpreter::Args;
use super::problem;
use crate::callback::Callback;
use crate::context::Turn;
use crate::fault::{Breakage, Fault, Refusal};
use crate::figures::Spent;
use crate::filter::Hook;
use rhai::{Dynamic, EvalAltResult};
use std::borrow::Cow;
use std::time::Duration;

/// What came of a call, and what it cost.
pub(super) type Called = (Result<Dynamic, Ended>, Spent);

/// How a call ended without a value.
pub(super) enum Ended {
    Refused(Refusal),
    /// The breakage is for the log; the summary names no place and may be shown to anybody.
    Broken {
        breakage: Breakage,
        summary: String,
    },
}

impl Script {
    /// Calls one hook's function within its budget.
    pub(super) fn call(&self, hook: Hook, args: impl Into<Args>, turn: &Turn) -> Called {
        let budget = match hook {
            Hook::Stream | Hook::StreamEnd => self.settings.stream,
            _ => self.settings.hook,
        };
        self.run(hook.name(), args.into(), turn, budget)
    }

    /// Calls a callback's function within the budget of hooks.
    pub(super) fn call_callback(&self, callback: Callback, args: Args, turn: &Turn) -> Called {
        self.run(callback.name(), args, turn, self.settings.hook)
    }

    /// Calls a tool's function, which may last as long as its timeout says.
    pub(super) fn call_tool(&self, function: &str, args: Args, turn: &Turn, timeout: Duration) -> Called {
        let budget = Budget { wall: timeout.min(self.settings.tool.wall), ..self.settings.tool };
        self.run(function, args, turn, budget)
    }

    /// Calls `pipe`, and within the same budget what sends its answer on.
    pub(super) fn call_pipe(
        &self,
        args: Args,
        turn: &Turn,
        timeout: Duration,
        send: impl FnOnce(Dynamic) -> Result<(), Box<EvalAltResult>>,
    ) -> (Result<(), Ended>, Spent) {
        let budget = Budget { wall: timeout, ..self.settings.tool };
        self.within(budget, "pipe", turn, || send(self.evaluate("pipe", args)?))
    }

    /// Calls any of its functions within the budget of a tool.
    pub(super) fn call_function(
        &self,
        name: &str,
        args: Vec<Dynamic>,
        turn: &Turn,
    ) -> Result<Dynamic, Fault> {
        let (result, _) = self.run(name, args.into(), turn, self.settings.tool);
        result.map_err(|ended| match ended {
            Ended::Refused(refusal) => Fault::Refused(refusal),
            Ended::Broken { breakage, .. } => Fault::Broken(breakage),
        })
    }

    /// Calls a function that says what is in the file, outside of any turn.
    pub(super) fn list(&self, function: &str) -> Result<Dynamic, Box<EvalAltResult>> {
        let _guard = Guard::enter(self.settings.hook);
        self.evaluate(function, Args::new())
    }

    fn run(&self, function: &str, args: Args, turn: &Turn, budget: Budget) -> Called {
        self.within(budget, function, turn, || self.evaluate(function, args))
    }

    fn within<T>(
        &self,
        budget: Budget,
        function: &str,
        turn: &Turn,
        work: impl FnOnce() -> Result<T, Box<EvalAltResult>>,
    ) -> (Result<T, Ended>, Spent) {
        let guard = self.settings.guarded.then(|| Guard::enter(budget));
        let _running = Running::enter(self, turn);
        let result = work();
        let spent = guard.map(|guard| guard.spent()).unwrap_or_default();
        let result = result.map_err(|error| self.ended(function, &error));
        if result.is_ok() && turn.is_heavier_than(budget.memory, self.id(), spent.kept) {
            return (Err(self.too_heavy(function, budget.memory)), spent);
        }
        (result, spent)
    }

    pub(super) fn evaluate(&self, function: &str, args: Args) -> Result<Dynamic, Box<EvalAltResult>> {
        self.interpreter.call(&self.engine, &self.ast, function, args)
    }

    fn too_heavy(&self, function: &str, limit: usize) -> Ended {
        let summary = format!("keeps more than {} MB in `state` and `__metadata__`", limit >> 20);
        let cause = format!("{}: {summary}, in {function}", self.file.path.display());
        Ended::Broken { breakage: Breakage::new(cause), summary }
    }

    fn ended(&self, function: &str, error: &EvalAltResult) -> Ended {
        if let EvalAltResult::ErrorRuntime(value, _) = error.unwrap_inner()
            && let Some(thrown) = value.read_lock::<Thrown>()
            && !thrown.bug
        {
            let mut refusal = thrown.refusal.clone();
            refusal.message = redact(refusal.message);
            return Ended::Refused(refusal);
        }
        let cause = redact(problem::of_run(&self.sources, function, error));
        let summary = redact(problem::summary_of_run(error));
        Ended::Broken { breakage: Breakage::new(cause), summary }
    }
}

/// A text that others read, without secrets.
fn redact(text: String) -> String {
    match redacted(&text) {
        Cow::Owned(redacted) => redacted,
        Cow::Borrowed(_) => text,
    }
}
