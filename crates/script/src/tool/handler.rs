//! Calls of a script's tools by models.

use super::function::{Role, ServedFunction, ToolFunction};
use crate::declare::hooks::Param;
use crate::run::argument::UserValves;
use crate::run::script_call::CallEnd;
use crate::script::Script;
use futures::future::BoxFuture;
use rhai::Dynamic;
use std::sync::Arc;
use valvehouse_core::breaker::BreakerState;
use valvehouse_core::context::{Context, Turn};
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_core::metrics::{CallMetrics, CallOutcome};
use valvehouse_core::tool::{Handler, Tool, ToolDeclaration, ToolError, ToolResult};
use valvehouse_dialect::answer::{HookAnswer, summary_of_run};
use valvehouse_dialect::budget::input_size::attributed;
use valvehouse_dialect::value::{Shape, dynamic_of, json_of, live};
use valvehouse_executor::{self as executor, ExecutorError, STUCK, Workload};
use valvehouse_json::Json;

/// The maximum length of a result, in bytes of JSON: a model reads all of it.
pub(super) const MAX_RESULT: usize = 1024 * 1024;

/// A tool of a script, and the filters it declares for itself.
pub struct ScriptedTool {
    /// The tool, without these filters.
    pub tool: Tool,
    /// The ids of filters that run only for this tool.
    pub filters: Vec<String>,
}

/// A prompt or the resources of a script; called like a tool.
pub struct ServedTool {
    /// Its purpose.
    pub role: Role,
    /// The function as a tool, without its filters.
    pub scripted: ScriptedTool,
}

impl Script {
    /// Returns the script's tools, in the order of their declaration.
    pub fn tools(self: &Arc<Self>, users: &Arc<UserValves>) -> Vec<ScriptedTool> {
        self.may_leave_work();
        let indexes = 0..self.tools.len();
        indexes
            .map(|index| {
                let ToolDeclaration { mut spec, filters } = self.tools[index].declared.clone();
                spec.module = Some(self.id().to_owned());
                let call_metrics = self.metrics().of(&spec.name);
                let function = Function::Tool(index);
                let handler =
                    ScriptTool { script: self.clone(), users: users.clone(), function, call_metrics };
                ScriptedTool { tool: Tool::new(spec, handler), filters }
            })
            .collect()
    }

    /// Returns the script's prompts and resources, in the order of their declaration.
    pub fn served(self: &Arc<Self>, users: &Arc<UserValves>) -> Vec<ServedTool> {
        let one = |(index, served): (usize, &ServedFunction)| {
            let ToolDeclaration { mut spec, filters } = served.function.declared.clone();
            spec.module = Some(self.id().to_owned());
            let call_metrics = self.metrics().of(&spec.name);
            let function = Function::Served(index);
            let handler = ScriptTool { script: self.clone(), users: users.clone(), function, call_metrics };
            let scripted = ScriptedTool { tool: Tool::new(spec, handler), filters };
            ServedTool { role: served.role, scripted }
        };
        self.served.iter().enumerate().map(one).collect()
    }

    /// Returns the names of the script's tools.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.declared.spec.name.as_str())
    }
}

/// A script's function as the handler of a tool.
#[derive(Clone)]
struct ScriptTool {
    script: Arc<Script>,
    users: Arc<UserValves>,
    function: Function,
    call_metrics: Arc<CallMetrics>,
}

/// The index of a function in its script.
#[derive(Clone, Copy)]
enum Function {
    Tool(usize),
    Served(usize),
}

impl Handler for ScriptTool {
    /// Runs on the executor, because a handler may compute or wait until its timeout.
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        let this = self.clone();
        Box::pin(async move {
            let workload = if this.call_metrics.is_slow() { Workload::CpuBound } else { Workload::Blocking };
            let breaker = this.script.breaker.clone();
            let owner = this.script.caller.plugin.clone();
            let apart = executor::run_for(&owner, workload, move || this.run(&args, &turn)).await;
            if let Err(ExecutorError::Stuck) = &apart {
                breaker.trip(STUCK);
            }
            apart.unwrap_or_else(|error| Err(error.to_string().into()))
        })
    }
}

/// The reason why a call has no result.
enum CallFailure {
    /// The tool returned an error.
    Refused(ToolError),
    /// The tool failed: the message for the model, and the failure for the circuit breaker.
    Broken { message: ToolError, failure: PluginError },
}

impl CallFailure {
    /// Attributes an unusable result to the arguments if their size explains it.
    fn attributed(self, args: &Json) -> Self {
        match self {
            Self::Broken { message, failure } => {
                Self::Broken { message, failure: attributed(failure, "", None, args, 0) }
            }
            refused @ Self::Refused(_) => refused,
        }
    }
}

impl From<Rejection> for CallFailure {
    fn from(rejection: Rejection) -> Self {
        Self::Refused(rejection.into())
    }
}

impl ScriptTool {
    /// Runs one call, unless the tool's circuit breaker is open.
    fn run(&self, args: &Json, turn: &Turn) -> Result<ToolResult, ToolError> {
        let breaker = &self.script.breaker;
        let admission = breaker.admit(|| turn.facts().client_digest());
        if let BreakerState::Open(rest) = admission {
            self.call_metrics.record_skipped();
            return Err(breaker.rejection(rest).into());
        }
        let (result, broke) = match self.measured(args, turn) {
            Ok(result) => (Ok(result), None),
            Err(CallFailure::Refused(error)) => (Err(error), None),
            Err(CallFailure::Broken { message, failure }) => (Err(message), Some(failure)),
        };
        match broke {
            // The tool did not fail if the call was canceled with its turn.
            Some(_) if turn.is_over() => {}
            failure => breaker.record(admission, failure.as_ref(), || turn.facts().client_digest()),
        }
        result
    }

    fn measured(&self, args: &Json, turn: &Turn) -> Result<ToolResult, CallFailure> {
        let tool = self.tool();
        let bound = tool.bound.iter().map(dynamic_of);
        let subject = tool.subject.map(|name| args.field(name));
        let params = tool.params.iter().map(|param| match param {
            Param::Subject => live(subject.as_ref().unwrap_or(args), Shape::Plain),
            param => self.script.argument(*param, turn, &self.users),
        });
        let timing = self.call_metrics.begin();
        let (values, timeout) = (bound.chain(params).collect(), tool.declared.spec.timeout);
        let (result, spent) = self.script.call_tool(&tool.function, values, turn, timeout);
        if let Some(trace) = turn.trace() {
            trace.spend("tool", self.script.id(), spent);
        }
        let result = match result {
            Ok(value) => self.result(&value, turn.context()).map_err(|failure| failure.attributed(args)),
            Err(CallEnd::Rejected(rejection)) => Err(rejection.into()),
            // The call waits for a person, so the tool did not fail.
            Err(CallEnd::Broken { summary, .. }) if turn.is_paused() => {
                Err(CallFailure::Refused(ToolError::from(summary).answer()))
            }
            Err(CallEnd::Broken { failure, summary, limit, .. }) => {
                let failure = attributed(failure, &summary, limit, args, 0);
                Err(self.broken(&format!("failed: {summary}"), failure, turn.is_over()))
            }
        };
        let ending = match &result {
            Err(CallFailure::Broken { .. }) if !turn.is_over() => CallOutcome::Failed,
            Err(CallFailure::Refused(_)) => CallOutcome::Refused,
            _ => CallOutcome::Continued,
        };
        self.call_metrics.end(&timing, spent, ending);
        result
    }

    fn tool(&self) -> &ToolFunction {
        match self.function {
            Function::Tool(index) => &self.script.tools[index],
            Function::Served(index) => &self.script.served[index].function,
        }
    }

    fn name(&self) -> &str {
        &self.tool().declared.spec.name
    }

    fn result(&self, value: &Dynamic, context: &Context) -> Result<ToolResult, CallFailure> {
        if let Some(answer) = value.read_lock::<HookAnswer>() {
            return match &*answer {
                HookAnswer::Ok(value, given) => {
                    if let Some(given) = given {
                        take(context, given);
                    }
                    self.checked(value, context)
                }
                HookAnswer::Skip(value) => self.checked(value, context),
                HookAnswer::Error(rejection) => {
                    Err(CallFailure::Refused(ToolError::from(rejection.clone()).answer()))
                }
            };
        }
        let value = json_of(value).map_err(|error| {
            self.unusable(format!("returned a value that is not valid JSON: {}", summary_of_run(&error)))
        })?;
        self.checked(&value, context)
    }

    /// Returns a copy of the value if it is valid JSON within the limit of a result.
    fn checked(&self, value: &Json, context: &Context) -> Result<ToolResult, CallFailure> {
        let value = value.deep_clone();
        let length = length_of(&value)
            .map_err(|error| self.unusable(format!("returned an invalid result: {error}")))?;
        if length > MAX_RESULT {
            let (kb, most) = (length / 1024, MAX_RESULT / 1024);
            return Err(
                self.unusable(format!("returned {kb} KB; its result exceeded its limit of {most} KB"))
            );
        }
        Ok(ToolResult { context: Some(context.clone()), ..value.into() })
    }

    fn unusable(&self, what: String) -> CallFailure {
        let failure = PluginError::new(what.clone());
        self.broken(&what, failure, false)
    }

    /// Logs the cause and returns the message for the model. A call that was canceled with its turn did not fail.
    fn broken(&self, what: &str, failure: PluginError, is_canceled: bool) -> CallFailure {
        match is_canceled {
            true => tracing::debug!(plugin = self.script.id(), tool = self.name(), "{}", failure.cause),
            false => tracing::error!(plugin = self.script.id(), tool = self.name(), "{}", failure.cause),
        }
        CallFailure::Broken { message: format!("the tool `{}` {what}", self.name()).into(), failure }
    }
}

/// Returns the length of a result as the model reads it, in bytes.
pub(super) fn length_of(value: &Json) -> Result<usize, String> {
    match value {
        Json::Text(text) => Ok(text.len()),
        other => other.encode().map(|bytes| bytes.len()).map_err(|error| error.to_string()),
    }
}

/// Applies a context that a handler returned, if it is a different object.
fn take(context: &Context, given: &Json) {
    for (own, key) in [(context.variables(), "variables"), (context.metadata(), "metadata")] {
        if let (Json::Object(own), Some(Json::Object(new))) = (own, given.get(key))
            && !own.ptr_eq(&new)
        {
            // A returned object cannot contain the context itself, so replacing it cannot fail.
            let _ = own.replace(new.entries());
        }
    }
}
