//! Calls of a compiled script within a budget, including the background calls after an answer and on a timer.

use crate::diagnostic::{self, Code, Diagnostic};
use crate::script::Script;
use crate::settings::Settings;
use rhai::{Dynamic, EvalAltResult};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::breaker::BreakerState;
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, PluginError, Rejection};
use valvehouse_core::filter::Hook;
use valvehouse_core::metrics::{CallCost, CallOutcome};
use valvehouse_core::trace::What;
use valvehouse_dialect::answer::{self, ThrownError, summary_of_run};
use valvehouse_dialect::budget::input_size::{ReachedLimit, attributed};
use valvehouse_dialect::budget::{self, Budget, Guard};
use valvehouse_dialect::call::redaction::redacted;
use valvehouse_dialect::call::resources::{Clock, Resources, SetClock};
use valvehouse_dialect::call::{self, ChunkSink, RunningCall, ScriptCaller};
use valvehouse_dialect::interpreter::Args;
use valvehouse_dialect::value::UNJUDGED;
use valvehouse_executor::{self as executor, ExecutorError, STUCK, Workload};
use valvehouse_json::Json;

/// The time limit of background work after an answer, including waiting.
const BEHIND: Duration = Duration::from_secs(60);

/// The result of a call, and its cost.
pub(crate) type CallResult = (Result<Dynamic, CallEnd>, CallCost);

/// The reason why a call returned no value.
pub(crate) enum CallEnd {
    Rejected(Rejection),
    /// The plugin error is for the log. The summary contains no path and may be shown to anybody.
    Broken {
        failure: PluginError,
        summary: String,
        /// The limit that ended the call, if a larger input can exceed it.
        limit: Option<ReachedLimit>,
        /// The reason, if the client left a question unanswered. The failure does not count for the circuit
        /// breaker.
        client: Option<Rejection>,
    },
}

impl Script {
    /// Calls one hook's function within the budget of hooks.
    #[cfg(test)]
    pub(crate) fn call(&self, hook: Hook, args: impl Into<Args>, turn: &Turn) -> CallResult {
        self.call_hook(hook, args.into(), turn, self.settings.hook)
    }

    /// Calls one hook's function within a budget.
    pub(crate) fn call_hook(&self, hook: Hook, args: Args, turn: &Turn, budget: Budget) -> CallResult {
        self.run_answering(hook.name(), args, turn, budget)
    }

    /// Calls a hook whose syntax proves that its calls are short and allocate little: no separate stack is needed
    /// to abandon it.
    pub(crate) fn call_cheap_hook(&self, hook: Hook, args: Args, turn: &Turn, budget: Budget) -> CallResult {
        let guard = self.settings.guarded.then(|| Guard::enter(budget));
        let _running = RunningCall::enter(&self.caller, turn, self.resources.clone());
        let result = self.answer(hook.name(), args);
        self.settled(result, hook.name(), turn, budget, guard)
    }

    /// Calls a callback's function within the budget of hooks.
    pub(crate) fn call_callback(&self, name: &str, args: Args, turn: &Turn) -> CallResult {
        self.run(name, args, turn, self.settings.hook)
    }

    /// Calls a tool's function, within its timeout.
    pub(crate) fn call_tool(&self, function: &str, args: Args, turn: &Turn, timeout: Duration) -> CallResult {
        let budget = Budget { wall: timeout.min(self.settings.tool.wall), ..self.settings.tool };
        self.run_answering(function, args, turn, budget)
    }

    /// Calls `pipe`, and `send` for its return value within the same budget.
    pub(crate) fn call_pipe(
        &self,
        args: Args,
        turn: &Turn,
        timeout: Duration,
        out: Arc<dyn ChunkSink>,
        send: impl FnOnce(Dynamic) -> Result<(), Box<EvalAltResult>>,
    ) -> (Result<(), CallEnd>, CallCost) {
        let budget = Budget { wall: timeout, ..self.settings.tool };
        self.within(budget, "pipe", turn, || {
            call::write_to(out);
            send(self.evaluate("pipe", args)?)
        })
    }

    /// Returns the budget of background work after an answer.
    pub(crate) fn budget_behind(&self) -> Budget {
        Budget { wall: BEHIND, ..self.settings.hook }
    }

    /// Does background work within its own budget. Failures do not count for the circuit breaker of requests.
    pub(crate) fn call_behind<T>(
        &self,
        function: &str,
        turn: &Turn,
        budget: Budget,
        work: impl FnOnce() -> Result<T, Box<EvalAltResult>>,
    ) -> (Result<T, CallEnd>, CallCost) {
        self.within_as(&self.behind, budget, function, turn, work)
    }

    /// Calls any function of the script within the budget of a tool.
    ///
    /// # Errors
    /// Returns the rejection or the failure of the call.
    pub fn call_function(&self, name: &str, args: Vec<Dynamic>, turn: &Turn) -> Result<Dynamic, Error> {
        let (result, _) = self.run(name, args.into(), turn, self.settings.tool);
        result.map_err(|ended| match ended {
            CallEnd::Rejected(rejection) => Error::Rejected(rejection),
            CallEnd::Broken { failure, .. } => Error::Broken(failure),
        })
    }

    /// Calls a test, which itself reaches a clock and the stores of `settings` only.
    ///
    /// # Errors
    /// Returns the error of the test.
    pub fn call_test(
        &self,
        test: &str,
        (settings, clock): (&Settings, Arc<SetClock>),
        turn: &Turn,
        budget: Budget,
    ) -> Result<(), Box<EvalAltResult>> {
        let resources = Resources {
            clock: Clock::Set(clock),
            kv: Some(settings.kv.clone()),
            vectors: Some(settings.vectors.clone()),
            memories: settings.models.clone().map(|models| (settings.vectors.clone(), models)),
            ..Resources::default()
        };
        let _guard = Guard::enter(budget);
        let _running = RunningCall::enter(&self.caller, turn, Arc::new(resources));
        self.evaluate(test, Args::new()).map(drop)
    }

    /// Describes an error of one of its functions.
    pub fn problem_of_run(&self, code: Code, function: &str, error: &EvalAltResult) -> Diagnostic {
        diagnostic::at_run(code, self.id(), &self.sources, function, error)
    }

    /// Calls a function that lists the content of the file, outside of any turn.
    pub(crate) fn list(&self, function: &str) -> Result<Dynamic, Box<EvalAltResult>> {
        let budget = self.settings.hook;
        let _guard = Guard::enter(budget);
        let listed = executor::run_apart(|| self.evaluate(function, Args::new()));
        listed.unwrap_or_else(|_| Err(budget::abandoned(budget)))
    }

    /// Returns the help for a list that failed while the file was loaded.
    pub(crate) fn help_for_list(&self) -> Option<&'static str> {
        let asks = self.waits() && self.manifest.ttl.is_none();
        asks.then_some(
            "a list that waits is read in the background and reused for a time: add const ttl = \
                        \"10m\";",
        )
    }

    /// Calls a function whose result is a verdict: it fails if an answer was built and not returned.
    fn run_answering(&self, function: &str, args: Args, turn: &Turn, budget: Budget) -> CallResult {
        self.within(budget, function, turn, || self.answer(function, args))
    }

    fn answer(&self, function: &str, args: Args) -> Result<Dynamic, Box<EvalAltResult>> {
        let value = self.evaluate(function, args)?;
        answer::all_returned(&value)?;
        Ok(value)
    }

    fn run(&self, function: &str, args: Args, turn: &Turn, budget: Budget) -> CallResult {
        self.within(budget, function, turn, || self.evaluate(function, args))
    }

    fn within<T>(
        &self,
        budget: Budget,
        function: &str,
        turn: &Turn,
        work: impl FnOnce() -> Result<T, Box<EvalAltResult>>,
    ) -> (Result<T, CallEnd>, CallCost) {
        self.within_as(&self.caller, budget, function, turn, work)
    }

    fn within_as<T>(
        &self,
        caller: &Arc<ScriptCaller>,
        budget: Budget,
        function: &str,
        turn: &Turn,
        work: impl FnOnce() -> Result<T, Box<EvalAltResult>>,
    ) -> (Result<T, CallEnd>, CallCost) {
        let guard = self.settings.guarded.then(|| Guard::enter(budget));
        let _running = RunningCall::enter(caller, turn, self.resources.clone());
        let result = executor::run_apart(work).unwrap_or_else(|_| Err(budget::abandoned(budget)));
        let result = result.and_then(|value| budget::check_end().map(|()| value).map_err(budget::ended));
        self.settled(result, function, turn, budget, guard)
    }

    /// Converts the result of a call, and measures its cost.
    fn settled<T>(
        &self,
        result: Result<T, Box<EvalAltResult>>,
        function: &str,
        turn: &Turn,
        budget: Budget,
        guard: Option<Guard>,
    ) -> (Result<T, CallEnd>, CallCost) {
        let spent = guard.map(|guard| guard.spent()).unwrap_or_default();
        let result = result.map_err(|error| self.ended(function, &error));
        if result.is_ok() && turn.is_heavier_than(budget.memory, self.id(), spent.kept) {
            return (Err(self.too_heavy(function, budget.memory)), spent);
        }
        (result, spent)
    }

    pub(crate) fn evaluate(&self, function: &str, args: Args) -> Result<Dynamic, Box<EvalAltResult>> {
        // Captured variables are emptied at the end of the call, so the result must not share them.
        self.interpreter.call(&self.engine, &self.ast, function, args).map(Dynamic::flatten)
    }

    fn too_heavy(&self, function: &str, limit: usize) -> CallEnd {
        let summary = format!("exceeded its limit of {} MB in `state` and `__metadata__`", limit >> 20);
        let cause = format!("{}: {summary}, in {function}", self.file.path.display());
        CallEnd::Broken { failure: PluginError::new(cause), summary, limit: None, client: None }
    }

    fn ended(&self, function: &str, error: &EvalAltResult) -> CallEnd {
        let mut client = None;
        if let EvalAltResult::ErrorRuntime(value, _) = error.unwrap_inner()
            && let Some(thrown) = value.read_lock::<ThrownError>()
        {
            let shown = |rejection: &Rejection| Rejection {
                message: redact(rejection.message.clone()),
                content: None,
                ..rejection.clone()
            };
            if !thrown.bug {
                return CallEnd::Rejected(shown(&thrown.rejection));
            }
            client = thrown.client_error().map(shown);
        }
        let cause = redact(diagnostic::of_run(&self.sources, function, error));
        let summary = redact(summary_of_run(error));
        // A request that a guard cannot judge is rejected with the reason.
        let rejection = client.clone().filter(|client| client.status == UNJUDGED).map(Box::new);
        let failure = PluginError { is_by_request: client.is_some(), rejection, ..PluginError::new(cause) };
        CallEnd::Broken { failure, summary, limit: ReachedLimit::of(error), client }
    }
}

/// Redacts secrets in a text.
fn redact(text: String) -> String {
    match redacted(&text) {
        Cow::Owned(redacted) => redacted,
        Cow::Borrowed(_) => text,
    }
}

impl Script {
    /// Does background work on the executor, within a budget. Its own circuit breaker rejects no requests; it does
    /// not count failures that the size of `input` explains.
    pub(crate) async fn call_in_background<T: Send + 'static>(
        self: Arc<Self>,
        name: &'static str,
        budget: Budget,
        turn: Turn,
        input: Option<Json>,
        job: impl FnOnce(&Self, &Turn) -> Result<T, Box<EvalAltResult>> + Send + 'static,
    ) -> Result<T, PluginError> {
        let failed = |failure: PluginError| PluginError {
            plugin: self.caller.plugin.to_string(),
            hook: name.to_owned(),
            ..failure
        };
        let call_metrics = self.metrics().of(name);
        let breaker = self.behind.breaker.clone();
        let admission = breaker.admit(|| None);
        if let BreakerState::Open(rest) = admission {
            call_metrics.record_skipped();
            return Err(failed(PluginError::new(breaker.rejection(rest).message)));
        }
        let workload = if call_metrics.is_slow() { Workload::CpuBound } else { Workload::Blocking };
        let owner = self.caller.plugin.clone();
        let (this, own) = (self.clone(), turn.clone());
        let worked =
            executor::run_for(&owner, workload, move || this.do_job(name, budget, &own, input, job)).await;
        if let Err(ExecutorError::Stuck) = &worked {
            breaker.trip(STUCK);
        }
        let worked = worked.unwrap_or_else(|error| Err(error.into()));
        breaker.record(admission, worked.as_ref().err(), || None);
        // Values stored with `durable` are on disk before the work counts as done.
        let flushed = turn.flush().await.map_err(|error| PluginError::new(error.to_string()));
        worked.and_then(|value| flushed.map(|()| value)).map_err(failed)
    }

    fn do_job<T>(
        &self,
        name: &'static str,
        budget: Budget,
        turn: &Turn,
        input: Option<Json>,
        job: impl FnOnce(&Self, &Turn) -> Result<T, Box<EvalAltResult>>,
    ) -> Result<T, PluginError> {
        let call_metrics = self.metrics().of(name);
        let step = turn.trace().map(|trace| trace.begin(What::Hook(&self.caller.plugin, name), &Json::Null));
        let timing = call_metrics.begin();
        let (result, spent) = self.call_behind(name, turn, budget, || job(self, turn));
        if let Some(trace) = turn.trace() {
            trace.spend(name, self.id(), spent);
        }
        let result = result.map_err(|ended| match ended {
            CallEnd::Rejected(rejection) => PluginError::new(rejection.message),
            CallEnd::Broken { failure, summary, limit, .. } => {
                attributed(failure, &summary, limit, input.as_ref().unwrap_or(&Json::Null), 0)
            }
        });
        call_metrics.end(
            &timing,
            spent,
            if result.is_ok() { CallOutcome::Continued } else { CallOutcome::Failed },
        );
        if let Some(step) = step {
            let (word, cause) = match &result {
                Ok(_) => ("continue", None),
                Err(failure) => ("failed", Some(failure.cause.as_str())),
            };
            step.end(word, cause, None);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Settings, SourceFile};
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use valvehouse_core::breaker::BreakerState;
    use valvehouse_core::filter::Chain;

    fn script() -> Script {
        let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", "fn inlet(body) { body }");
        Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    /// Calls an unmetered native that allocates up to 1 GiB; returns the summary of its error.
    fn takes_too_much(script: &Script) -> Option<String> {
        let turn = Turn::default();
        let (result, _) = script.within(script.settings.hook, "inlet", &turn, || {
            let mut grown: Vec<u8> = Vec::new();
            while grown.len() < 1 << 30 {
                grown.resize(grown.len() * 2 + 1_000, 1);
            }
            Ok(Dynamic::from(grown.len() as i64))
        });
        match result {
            Err(CallEnd::Broken { summary, .. }) => Some(summary),
            _ => None,
        }
    }

    #[test]
    fn a_native_call_far_over_its_memory_is_abandoned() {
        let script = script();
        assert_eq!(takes_too_much(&script).as_deref(), Some("exceeded its memory limit of 64 MB"));
        assert!(matches!(script.breaker.admit(|| None), BreakerState::Open(_)), "the plugin is used again");
        let other = self::script();
        let (result, _) = other.within(other.settings.hook, "inlet", &Turn::default(), || Ok(Dynamic::ONE));
        assert!(result.is_ok() && other.breaker.admit(|| None) == BreakerState::Closed);
    }

    /// Returns the error summary of a tool list that calls a native without a declared cost.
    fn lists_too_much() -> Option<String> {
        let text = "fn tools() { [#{ name: \"t\", description: \"d\", handler: |args| 1 }] }\nfn bad() { Fn(\"take_too_much\").call() }";
        let file = SourceFile::new(Kind::Tool, "x", "tools/x.rhai", text);
        let mut script =
            Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| panic!("{problems:?}"));
        script.engine.register_fn("take_too_much", || {
            let mut grown: Vec<u8> = Vec::new();
            while grown.len() < 1 << 30 {
                grown.resize(grown.len() * 2 + 1_000, 1);
            }
            grown.len() as i64
        });
        let listed = script.list("bad");
        assert!(script.list("tools").is_ok(), "the next one is listed");
        listed.err().map(|error| summary_of_run(&error))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn code_that_runs_during_loading_is_abandoned_like_a_call() {
        let abandoned = Some("exceeded its memory limit of 64 MB".to_owned());
        assert_eq!(lists_too_much(), abandoned);
        assert_eq!(tokio::task::block_in_place(lists_too_much), abandoned);
        assert_eq!(std::thread::spawn(lists_too_much).join().unwrap(), abandoned);
        assert_eq!(tokio::task::spawn_blocking(lists_too_much).await.unwrap(), abandoned);
        assert_eq!(tokio::spawn(async { lists_too_much() }).await.unwrap(), abandoned);
    }

    #[tokio::test]
    async fn an_abandoned_call_leaves_its_lane_usable() {
        let ended = executor::run(executor::Workload::Blocking, || takes_too_much(&script())).await;
        assert!(matches!(ended, Err(executor::ExecutorError::Abandoned)), "{ended:?}");
        assert_eq!(executor::run(executor::Workload::Blocking, || 5).await.unwrap(), 5);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_hook_stuck_in_a_native_function_is_abandoned_and_not_called_again() {
        valvehouse_executor::set_max_stuck(std::time::Duration::from_secs(3));
        let ends = Arc::new(AtomicBool::new(false));
        let filter = |id: &str, text: &str| {
            let file = SourceFile::new(Kind::Filter, id, "filters/x.rhai", text);
            let settings = Settings { is_served: true, ..Settings::default() };
            let mut script =
                Script::compile(&file, &settings).unwrap_or_else(|problems| panic!("{problems:?}"));
            let ends = ends.clone();
            script.engine.register_fn("spins", move || {
                while !ends.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            Arc::new(script)
        };
        let run = async |script: &Arc<Script>| {
            let body = valvehouse_json::Json::parse(br#"{"messages":[]}"#).unwrap();
            let chain = Chain::new(vec![script.clone().into_filter(Arc::default())]);
            chain.run(Hook::Inlet, body, &Turn::default()).await
        };
        let stuck = filter("stuck", "fn inlet(body) { Fn(\"spins\").call(); body }");
        let error = run(&stuck).await.err().unwrap();
        assert!(format!("{error:?}").contains("within one operation"), "{error:?}");
        assert!(matches!(stuck.breaker.admit(|| None), BreakerState::Open(_)), "the plugin is used again");
        let other = filter("other", "fn inlet(body) { for i in 0..1 { body.seen = i; } body }");
        assert!(run(&other).await.is_ok());
        ends.store(true, Relaxed);
    }

    #[test]
    fn a_large_allocation_within_the_budget_succeeds() {
        let script = script();
        let (result, _) = script.within(script.settings.hook, "inlet", &Turn::default(), || {
            Ok(Dynamic::from(vec![1_u8; 60 << 20].len() as i64))
        });
        assert!(result.is_ok());
    }
}
