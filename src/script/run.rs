//! Calling a compiled script: one function, within its budget.

use super::answer::Thrown;
use super::budget::{Budget, Guard};
use super::call::Running;
use super::compile::Script;
use super::problem;
use crate::context::Turn;
use crate::fault::{Breakage, Refusal};
use crate::filter::Hook;
use rhai::{CallFnOptions, Dynamic, EvalAltResult, Scope};
use std::time::Duration;

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
    pub(super) fn call(&self, hook: Hook, args: Vec<Dynamic>, turn: &Turn) -> Result<Dynamic, Ended> {
        let budget = match hook {
            Hook::Stream | Hook::StreamEnd => self.settings.stream,
            _ => self.settings.hook,
        };
        self.run(hook.name(), args, turn, budget)
    }

    /// Calls a tool's function, which may last as long as its timeout says.
    pub(super) fn call_tool(
        &self,
        function: &str,
        args: Vec<Dynamic>,
        turn: &Turn,
        timeout: Duration,
    ) -> Result<Dynamic, Ended> {
        let budget = Budget { wall: timeout.min(self.settings.tool.wall), ..self.settings.tool };
        self.run(function, args, turn, budget)
    }

    /// Calls a function that says what is in the file, outside of any turn.
    pub(super) fn list(&self, function: &str) -> Result<Dynamic, Box<EvalAltResult>> {
        let _guard = Guard::enter(self.settings.hook);
        self.evaluate(function, Vec::new())
    }

    fn run(&self, function: &str, args: Vec<Dynamic>, turn: &Turn, budget: Budget) -> Result<Dynamic, Ended> {
        let _guard = Guard::enter(budget);
        let _running = Running::enter(&self.file.id, turn, &self.reach);
        self.evaluate(function, args).map_err(|error| self.ended(function, &error))
    }

    fn evaluate(&self, function: &str, args: Vec<Dynamic>) -> Result<Dynamic, Box<EvalAltResult>> {
        let options = CallFnOptions::new().eval_ast(false).rewind_scope(false);
        self.engine.call_fn_with_options(options, &mut Scope::new(), &self.ast, function, args)
    }

    fn ended(&self, function: &str, error: &EvalAltResult) -> Ended {
        if let EvalAltResult::ErrorRuntime(value, _) = error.unwrap_inner()
            && let Some(thrown) = value.read_lock::<Thrown>()
            && !thrown.bug
        {
            return Ended::Refused(thrown.refusal.clone());
        }
        let cause = problem::of_run(&self.file.path, &self.file.text, function, error);
        Ended::Broken { breakage: Breakage::new(cause), summary: problem::summary_of_run(error) }
    }
}
