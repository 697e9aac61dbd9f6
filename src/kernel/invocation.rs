//! One tool call: pre_invocation chain, the tool, post_invocation chain.

use super::Kernel;
use super::round::ctx_of;
use crate::chat::Call;
use crate::context::Turn;
use crate::fault::{Fault, Refusal, RequestFault};
use crate::filter::{Chain, Hook, Outcome};
use crate::json::Json;
use crate::tool::{Tool, ToolError};

/// Calls a tool of the kernel through the filters; the value is what the model reads.
pub(super) async fn invoke(kernel: &Kernel, name: &str, args: Json, turn: &Turn) -> Result<Json, Fault> {
    let Some(tool) = kernel.find_tool(name) else {
        let known: Vec<&str> = kernel.toolbox().iter().map(Tool::name).collect();
        let of_module = kernel.toolbox().iter().filter(|tool| tool.spec.module.as_deref() == Some(name));
        let of_module: Vec<&str> = of_module.map(Tool::name).collect();
        let near = crate::words::nearest(name, known.iter().copied());
        let hint = match near {
            _ if !of_module.is_empty() => {
                format!("; that is a module, with the tools {}", of_module.join(", "))
            }
            Some(near) => format!("; did you mean `{near}`?"),
            None if known.is_empty() => "; there are no tools".into(),
            None => format!("; the tools are {}", known.join(", ")),
        };
        return Err(Fault::Request {
            message: format!("unknown tool `{name}`{hint}"),
            param: None,
            code: Some("tool_not_found"),
            kind: RequestFault::NotFound,
        });
    };
    // What filters guard is what the tool would get: a list that came as JSON in a string is a list to
    // them, too. Arguments that do not fit yet may still be mended by a filter.
    let args = tool.check(&args).unwrap_or(args);
    let chain = chain_of(kernel, tool);
    let about = tool.spec.describe();
    let ctx = ctx_of(turn, [("tool", about.clone()), ("args", args)]);
    let args = match chain.run(Hook::PreInvocation, ctx, turn).await? {
        Outcome::Done(ctx) => ctx.get("args").unwrap_or_else(Json::object),
        Outcome::Skipped(value) => return Ok(value),
    };
    // Filters after the tool see what it got, or what was refused.
    let (args, result) = match tool.check(&args) {
        Ok(args) => (args.clone(), tool.run(args, turn).await),
        Err(error) => (args, Err(error)),
    };
    let entry = Json::from([
        ("type", "tool_call".into()),
        ("name", name.into()),
        ("args", args.copy()),
        ("ok", result.is_ok().into()),
    ]);
    if let Json::Array(trace) = turn.context().trace() {
        let _ = trace.push(entry);
    }
    let value = match result {
        Ok(result) => {
            if let Some(context) = result.context {
                turn.context().take(&context);
            }
            result.value
        }
        Err(error) => return failed(&chain, about, args, refusal(tool, error), turn).await,
    };
    let ctx = ctx_of(turn, [("tool", about), ("args", args), ("result", value)]);
    match chain.run(Hook::PostInvocation, ctx, turn).await? {
        Outcome::Done(ctx) => Ok(ctx.get("result").unwrap_or_default()),
        Outcome::Skipped(value) => Ok(value),
    }
}

/// A tool's failure as it is told on.
fn refusal(tool: &Tool, error: ToolError) -> Refusal {
    let ToolError { message, fatal, status } = error;
    Refusal { fatal, plugin: tool.name().into(), ..Refusal::new(message).with_status(status.into()) }
}

/// A tool that failed: filters that want to may put a result in the place of its error.
async fn failed(
    chain: &Chain,
    about: Json,
    args: Json,
    refusal: Refusal,
    turn: &Turn,
) -> Result<Json, Fault> {
    if !chain.sees_failures() {
        return Err(Fault::Refused(refusal));
    }
    let error = refusal.message.as_str().into();
    let parts = [("tool", about), ("args", args), ("result", Json::Null), ("error", error)];
    match chain.run_after_failure(ctx_of(turn, parts), turn).await? {
        Outcome::Skipped(value) => Ok(value),
        Outcome::Done(ctx) => {
            ctx.get("result").filter(|result| !result.is_null()).ok_or(Fault::Refused(refusal))
        }
    }
}

/// The kernel's filters and the tool's own, in one order.
fn chain_of(kernel: &Kernel, tool: &Tool) -> Chain {
    if tool.filters.is_empty() {
        return kernel.chain().clone();
    }
    let filters = kernel.chain().filters();
    // One that runs for every tool anyway runs once.
    let own = tool.filters.iter().filter(|own| !filters.iter().any(|filter| filter.name() == own.name()));
    Chain::new(filters.iter().chain(own).cloned().collect())
}

/// A model's call, answered with the text of a tool message. What goes wrong is told to the model;
/// only what is fatal ends the turn.
pub(super) async fn answer_call(kernel: &Kernel, call: &Call, turn: &Turn) -> Result<String, Fault> {
    let result = match call.parse() {
        Ok(args) => invoke(kernel, &call.name, args, turn).await,
        Err(error) => return Ok(error_text(&error.to_string())),
    };
    match result {
        Ok(Json::Text(text)) => Ok(text.into()),
        Ok(value) => Ok(value.to_string()),
        Err(Fault::Refused(refusal)) if !refusal.fatal => Ok(error_text(&refusal.message)),
        Err(Fault::Request { message, .. }) => Ok(error_text(&message)),
        Err(fault) => Err(fault),
    }
}

/// What a tool message says of a failure.
pub(super) fn error_text(message: &str) -> String {
    Json::from([("error", message.into())]).to_string()
}
