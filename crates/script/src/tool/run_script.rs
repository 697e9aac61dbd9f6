//! `run_script`: a model calls several tools from one script; each call is handled like a direct one.

use super::handler::{MAX_RESULT, length_of};
use crate::diagnostic::{self, Diagnostic};
use crate::load::compile::MAIN;
use crate::run::script_call::CallEnd;
use crate::script::Script;
use crate::settings::Settings;
use futures::future::BoxFuture;
use rhai::Dynamic;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::breaker::{Breaker, BreakerSettings, BreakerState};
use valvehouse_core::context::Turn;
use valvehouse_core::kernel::Kernel;
use valvehouse_core::tool::{Handler, RUN_SCRIPT, Tool, ToolError, ToolResult, ToolSpec, is_entry_tool};
use valvehouse_dialect::answer::{HookAnswer, summary_of_run};
use valvehouse_dialect::value::json_of;
use valvehouse_executor::{self as executor, ExecutorError, STUCK, Workload};
use valvehouse_json::Json;
use valvehouse_script_std::engine;
use valvehouse_script_std::functions::tool_functions;

/// The maximum length of the code, in bytes.
const MAX_CODE: usize = 32 << 10;
/// The time limit of one script, including waiting.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of problems that are returned to the model.
const MAX_SHOWN: usize = 5;

const DESCRIPTION: &str = "Runs Rhai code that calls tools and returns its last value: one call instead of \
                           many, of which you read only the result. Each tool is a function of the same \
                           name: let found = github_search(#{ query: \"x\" }); tools::call(\"any-name\", #{ \
                           … }) calls a tool of any name, tools::all([#{ name: \"weather\", args: #{ city: \
                           \"Rome\" } }]) calls several in parallel. Maps are \
                           #{ key: value }, functions are closures: let f = |x| x + 1. try { … } catch (error) { … } catches \
                           a tool's error. The code has no access to files, the network or variables of \
                           earlier calls.";

/// Returns the tool that runs code of a model with the tools of the turn as functions, within the budget of tools.
///
/// Each inner call is a call by a script: filters see `caller: "run_script"`, the call is traced, and the limits on
/// nesting and on calls per request apply. The code cannot send events, ask a person or leave background work.
pub fn run_script() -> Tool {
    let declared = Json::from([("type", "string".into()), ("description", "Rhai code".into())]);
    declared.edit("required", true);
    let breaker = Arc::new(Breaker::new(RUN_SCRIPT, BreakerSettings::default()));
    let tool = Tool::new(ToolSpec::new(RUN_SCRIPT), RunScript { breaker }).description(DESCRIPTION);
    let tool = tool.timeout(TIMEOUT).parameters(&Json::from([("code", declared)]));
    tool.expect("parameters are declared as they may be")
}

struct RunScript {
    /// Opens permanently after a script that could not be ended.
    breaker: Arc<Breaker>,
}

impl Handler for RunScript {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            if let BreakerState::Open(rest) = self.breaker.admit(|| None) {
                return Err(self.breaker.rejection(rest).into());
            }
            let code = args.string("code");
            if code.len() > MAX_CODE {
                let length = code.len();
                return Err(wrong(format!(
                    "cannot run the code: it has {length} bytes and exceeded its limit of {MAX_CODE}; pass \
                     large values from tool to tool"
                )));
            }
            let ran = executor::run_for(RUN_SCRIPT, Workload::Blocking, move || run(&code, &turn)).await;
            if let Err(ExecutorError::Stuck) = &ran {
                self.breaker.trip(STUCK);
            }
            ran.unwrap_or_else(|error| Err(error.to_string().into()))
        })
    }
}

/// Creates an error that a retry would not fix.
fn wrong(message: String) -> ToolError {
    ToolError::from(message).answer()
}

fn run(code: &str, turn: &Turn) -> Result<ToolResult, ToolError> {
    let Some(kernel) = Kernel::of_turn(turn) else {
        return Err(wrong("cannot call tools outside of a turn".into()));
    };
    let is_function = |tool: &&Tool| !is_entry_tool(tool.name()) && !engine::has_function(tool.name());
    let script = Script::compile_for_model(RUN_SCRIPT, code, &Settings::default(), |calls| {
        let tools = kernel.toolbox().iter().filter(is_function).map(Tool::name);
        tool_functions(tools.filter(|name| calls.contains(*name)))
    });
    let script = script.map_err(|problems| wrong(not_loaded(&problems)))?;
    let (result, spent) = script.call_tool(MAIN, Default::default(), turn, TIMEOUT);
    if let Some(trace) = turn.trace() {
        trace.spend("tool", RUN_SCRIPT, spent);
    }
    // Code of a model cannot catch an error that ends the turn.
    if let Some(rejection) = script.resources.of_model.as_ref().and_then(|model| model.fatal.lock().clone()) {
        return Err(rejection.into());
    }
    let value = match result {
        Ok(value) => value_of(&value)?,
        Err(CallEnd::Rejected(rejection)) => return Err(ToolError { fatal: false, ..rejection.into() }),
        Err(CallEnd::Broken { summary, .. }) if turn.is_paused() => return Err(wrong(summary)),
        Err(CallEnd::Broken { failure, .. }) => return Err(wrong(failed(&failure.cause))),
    };
    Ok(ToolResult { context: Some(turn.context().clone()), ..value.into() })
}

/// Returns the failure of the code with its line, without the file and the function, which the model does not know.
fn failed(cause: &str) -> String {
    let placed = cause.strip_prefix(RUN_SCRIPT).and_then(|rest| rest.strip_prefix(':')).and_then(|rest| {
        let (place, cause) = rest.split_once(": ")?;
        Some(format!("line {}: {cause}", place.split(':').next()?))
    });
    let text = placed.as_deref().unwrap_or(cause);
    format!("the code failed: {}", text.trim_end_matches(", in main"))
}

/// Returns a copy of the result if it is valid JSON.
fn value_of(value: &Dynamic) -> Result<Json, ToolError> {
    let value = match value.read_lock::<HookAnswer>().as_deref() {
        Some(HookAnswer::Ok(value, _) | HookAnswer::Skip(value)) => value.deep_clone(),
        Some(HookAnswer::Error(rejection)) => {
            return Err(ToolError { fatal: false, ..ToolError::from(rejection.clone()).answer() });
        }
        None => {
            let json = json_of(value);
            json.map_err(|error| wrong(format!("the result is not valid JSON: {}", summary_of_run(&error))))?
                .deep_clone()
        }
    };
    let length = length_of(&value).map_err(|error| wrong(format!("the result is invalid: {error}")))?;
    match length > MAX_RESULT {
        true => Err(wrong(format!(
            "the result has {} KB and exceeded its limit of {} KB; return only a part of it",
            length / 1024,
            MAX_RESULT / 1024
        ))),
        false => Ok(value),
    }
}

/// Returns the problems of code that does not compile, each with its line.
fn not_loaded(problems: &[Diagnostic]) -> String {
    let errors = problems.iter().filter(|problem| diagnostic::has_errors(std::slice::from_ref(problem)));
    let lines = errors.take(MAX_SHOWN).map(|problem| {
        let place = problem.line.map_or_else(String::new, |line| format!("line {line}: "));
        let help = problem.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        format!("{place}{}{help}", problem.message)
    });
    format!("cannot compile the code: {}", lines.collect::<Vec<_>>().join("\n"))
}
