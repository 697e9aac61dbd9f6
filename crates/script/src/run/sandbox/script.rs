//! A script that is called directly, outside of a host's chains.

use crate::run::argument::UserValves;
use crate::script::Script;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::context::Turn;
use valvehouse_core::error::Error;
use valvehouse_core::filter::{ChainOutcome, FilterEntry, Hook, TraceOutcome, run_for_trace};
use valvehouse_core::kernel::{Kernel, KernelBuilder};
use valvehouse_core::metrics::CallMetrics;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;

/// A script with its hooks as a filter and its handlers as tools.
#[derive(Clone)]
pub struct SandboxScript {
    /// The script.
    pub script: Arc<Script>,
    /// The valves of users.
    pub users: Arc<UserValves>,
    /// Its hooks.
    pub filter: FilterEntry,
    /// Its handlers.
    pub tools: Vec<Tool>,
}

/// The outcome of a hook or tool, with its cost.
pub struct SandboxRun {
    /// `continue`, `skip`, `refused`, `failed`, `ignored`, `breaker_open` or `paused` for a hook; `ended` or
    /// `failed` for a tool; `no_hook` or `no_tool` if the script has none of that name.
    pub word: &'static str,
    /// The reason for a failure.
    pub cause: Option<String>,
    /// The value after the hook, the value of a `skip`, or the tool's result.
    pub value: Option<Json>,
    /// The error that would end the turn.
    pub error: Option<Error>,
    /// The time of the call, including waiting.
    pub took: Duration,
    /// The number of operations of the interpreter.
    pub operations: u64,
}

impl SandboxScript {
    /// Prepares a script for calls.
    pub fn new(script: Arc<Script>, users: Arc<UserValves>) -> Self {
        let filter = script.clone().into_filter(users.clone());
        let tools = script.tools(&users).into_iter().map(|scripted| scripted.tool).collect();
        Self { script, users, filter, tools }
    }

    /// Returns a kernel with the script as its only filter.
    pub fn chain(&self) -> KernelBuilder {
        Kernel::builder().filter(self.filter.clone())
    }

    /// Runs a hook. It is not a step of the turn's trace.
    pub async fn hook(&self, hook: Hook, value: Json, turn: &Turn) -> SandboxRun {
        if !self.filter.hooks().contains(hook) {
            return SandboxRun::of("no_hook", Some(value));
        }
        let meter = Meter::start(self.script.metrics().of(hook.name()));
        let TraceOutcome { word, cause, outcome, .. } = run_for_trace(&self.filter, hook, value, turn).await;
        meter.read(SandboxRun { word, cause, ..outcome.into() })
    }

    /// Runs a tool without filters.
    pub async fn tool(&self, name: &str, args: Json, turn: &Turn) -> SandboxRun {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return SandboxRun::of("no_tool", None);
        };
        let meter = Meter::start(self.script.metrics().of(name));
        let run = match tool.invoke(args, turn).await {
            Ok(result) => SandboxRun::of("ended", Some(result.value)),
            Err(error) => SandboxRun { cause: Some(error.message), ..SandboxRun::of("failed", None) },
        };
        meter.read(run)
    }
}

/// An outcome without its cost.
impl From<Result<ChainOutcome, Error>> for SandboxRun {
    fn from(outcome: Result<ChainOutcome, Error>) -> Self {
        match outcome {
            Ok(ChainOutcome::Done(value)) => Self::of("continue", Some(value)),
            Ok(ChainOutcome::Skipped(value)) => Self::of("skip", Some(value)),
            Err(error) => Self { error: Some(error), ..Self::of("failed", None) },
        }
    }
}

impl SandboxRun {
    fn of(word: &'static str, value: Option<Json>) -> Self {
        Self { word, cause: None, value, error: None, took: Duration::ZERO, operations: 0 }
    }
}

/// The metrics before a call, to compute its cost afterwards.
struct Meter {
    calls: Arc<CallMetrics>,
    before: u64,
    begun: Instant,
}

impl Meter {
    fn start(calls: Arc<CallMetrics>) -> Self {
        Self { before: calls.sum().operations, calls, begun: Instant::now() }
    }

    fn read(self, run: SandboxRun) -> SandboxRun {
        let operations = self.calls.sum().operations - self.before;
        SandboxRun { took: self.begun.elapsed(), operations, ..run }
    }
}
