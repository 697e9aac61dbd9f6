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
        let near = crate::words::nearest(name, known.iter().copied());
        let hint = match near {
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
    let chain = chain_of(kernel, tool);
    let about = tool.spec.describe();
    let ctx = ctx_of(turn, [("tool", about.clone()), ("args", args)]);
    let args = match chain.run(Hook::PreInvocation, ctx, turn).await? {
        Outcome::Done(ctx) => ctx.get("args").unwrap_or_else(Json::object),
        Outcome::Skipped(value) => return Ok(value),
    };
    let result = tool.invoke(args.clone(), turn.context().clone()).await;
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
        Err(error) => return failed(&chain, about, args, error, turn).await,
    };
    let ctx = ctx_of(turn, [("tool", about), ("args", args), ("result", value)]);
    match chain.run(Hook::PostInvocation, ctx, turn).await? {
        Outcome::Done(ctx) => Ok(ctx.get("result").unwrap_or_default()),
        Outcome::Skipped(value) => Ok(value),
    }
}

/// A tool that failed: filters that want to may put a result in the place of its error.
async fn failed(
    chain: &Chain,
    about: Json,
    args: Json,
    error: ToolError,
    turn: &Turn,
) -> Result<Json, Fault> {
    let fault = Fault::Refused(Refusal {
        fatal: error.fatal,
        plugin: about.text("name").unwrap_or_default().into(),
        ..Refusal::new(error.message.clone()).with_status(500)
    });
    if !chain.sees_failures() {
        return Err(fault);
    }
    let parts = [("tool", about), ("args", args), ("result", Json::Null), ("error", error.message.into())];
    match chain.run_after_failure(ctx_of(turn, parts), turn).await? {
        Outcome::Skipped(value) => Ok(value),
        Outcome::Done(ctx) => ctx.get("result").filter(|result| !result.is_null()).ok_or(fault),
    }
}

/// The kernel's filters and the tool's own, in one order.
fn chain_of(kernel: &Kernel, tool: &Tool) -> Chain {
    if tool.filters.is_empty() {
        return kernel.chain().clone();
    }
    Chain::new([kernel.chain().filters(), &tool.filters].concat())
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
