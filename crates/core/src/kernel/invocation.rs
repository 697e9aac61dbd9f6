//! A tool call: `pre_invocation` filters, the tool, and `post_invocation` filters. Tool calls by scripts within
//! a turn pass the same filters as those of its model.

use super::assembly::Kernel;
use super::call_output::{CallOutput, failure};
use super::progress::{Journal, Progress};
use crate::chat::{ModelCall, message, tool_results};
use crate::context::{HostCall, HostResult, Notice, NoticeKind, ToolCalled, Turn};
use crate::error::{Error, Rejection, RequestErrorKind};
use crate::filter::{Chain, ChainOutcome, Hook};
use crate::text::shortened;
use crate::tool::{Tool, ToolError, ToolResult};
use crate::trace::{What, spans};
use tracing::Instrument;
use valvehouse_json::Json;

/// The key of `ctx` that a filter sets to `true` if a person changed the arguments of a held call, so that the model
/// is told the arguments used.
pub const CHANGED_BY_PERSON: &str = "changed_by_person";

/// Returns the kernel's tool of a name, or an error that lists the tools.
pub(super) fn find<'a>(kernel: &'a Kernel, name: &str) -> Result<&'a Tool, Error> {
    kernel.find_tool(name).ok_or_else(|| {
        let known: Vec<&str> = kernel.toolbox().iter().map(Tool::name).collect();
        let of_module = kernel.toolbox().iter().filter(|tool| tool.spec.module.as_deref() == Some(name));
        let of_module: Vec<&str> = of_module.map(Tool::name).collect();
        let near = crate::text::nearest(name, known.iter().copied());
        let hint = match near {
            _ if !of_module.is_empty() => {
                format!("; that is a module, with the tools {}", of_module.join(", "))
            }
            Some(near) => format!("; did you mean `{near}`?"),
            None if known.is_empty() => "; there are no tools".into(),
            None => format!("; the tools are {}", known.join(", ")),
        };
        Error::Request {
            message: format!("unknown tool `{name}`{hint}"),
            param: None,
            code: Some("tool_not_found"),
            kind: RequestErrorKind::NotFound,
        }
    })
}

/// Calls a tool through the filters of a kernel, which need not own the tool.
pub(super) async fn invoke(
    kernel: &Kernel,
    tool: &Tool,
    args: Json,
    turn: &Turn,
    starting: Option<StoredCall<'_>>,
) -> Result<CallOutput, Error> {
    // Filters must see the value that the tool receives: a list sent as a JSON string is converted first. A
    // filter may still correct invalid arguments.
    let args = tool.check(&args).unwrap_or(args);
    let given = args.clone();
    let chain = chain_of(kernel, tool);
    // Filters such as approvals decide by the description, so no filter may change it.
    let about = tool.describe().freeze();
    let ctx = ctx_of(turn, [("tool", about.clone()), ("args", args)]);
    let (args, is_changed) = match chain.run(Hook::PreInvocation, ctx, turn).await {
        Ok(ChainOutcome::Done(ctx)) => {
            (ctx.get("args").unwrap_or_else(Json::object), ctx.is_true(CHANGED_BY_PERSON))
        }
        Ok(ChainOutcome::Skipped(value)) => {
            record(tool, given, CallEnd::Skipped(&value), turn);
            return Ok(value.into());
        }
        Err(error) => {
            let reason = match &error {
                Error::Paused => None,
                Error::Broken(failure) => Some(format!("the plugin `{}` failed", failure.plugin)),
                error => Some(error.to_string()),
            };
            if let Some(reason) = reason {
                record(tool, given, CallEnd::Failed(&reason), turn);
            }
            return Err(error);
        }
    };
    // Filters after the tool see the arguments that it received or that were refused.
    let (args, result) = match tool.check(&args) {
        Ok(args) => {
            if let Some(StoredCall { call, progress, journal }) = starting {
                journal.starting(call, &args, progress, turn).await?;
            }
            (args.clone(), run_once(tool, args, turn).await)
        }
        Err(error) => (args, Err(error)),
    };
    if turn.is_paused() {
        return Err(Error::Paused);
    }
    let end = match &result {
        Ok(result) => CallEnd::Ran(&result.value),
        Err(error) => CallEnd::Failed(&error.message),
    };
    record(tool, args.clone(), end, turn);
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            let value = failed(&chain, about, args, refusal(tool, error), turn).await?;
            return Ok(value.into());
        }
    };
    if let Some(context) = &result.context {
        turn.context().take(context);
    }
    let changed = is_changed.then(|| args.deep_clone());
    let output = match chain.has(Hook::PostInvocation) {
        false => result.into(),
        true => filtered(&chain, result.into(), (about, args), turn).await?,
    };
    Ok(CallOutput { changed, ..output })
}

/// Runs the filters after the tool.
async fn filtered(
    chain: &Chain,
    output: CallOutput,
    (about, args): (Json, Json),
    turn: &Turn,
) -> Result<CallOutput, Error> {
    // Filters must see the texts that the model receives.
    let CallOutput { value, content, .. } = output.readable();
    let shown = content.as_ref().map(|_| value.deep_clone());
    let ctx = ctx_of(turn, [("tool", about), ("args", args), ("result", value)]);
    match chain.run(Hook::PostInvocation, ctx, turn).await? {
        ChainOutcome::Done(ctx) => {
            let value = ctx.field("result");
            let content = content.filter(|_| shown.as_ref() == Some(&value));
            Ok(CallOutput { value, content, changed: None })
        }
        ChainOutcome::Skipped(value) => Ok(value.into()),
    }
}

/// The maximum number of bytes of a result or a reason in the trace of a turn.
const MAX_RECORDED: usize = 2_000;

/// The outcome of a call for the trace of its turn.
enum CallEnd<'a> {
    /// The tool returned this result.
    Ran(&'a Json),
    /// A filter returned this result instead of the tool.
    Skipped(&'a Json),
    /// The tool failed, or a filter refused the call.
    Failed(&'a str),
}

/// Appends a call to the trace of the turn: `{type: "tool_call", name, args, ok, skipped?, result | error}`. A
/// long result is stored as the beginning of its JSON text.
fn record(tool: &Tool, args: Json, end: CallEnd<'_>, turn: &Turn) {
    let Json::Array(trace) = turn.context().trace() else { return };
    let entry = Json::from([
        ("type", "tool_call".into()),
        ("name", tool.name().into()),
        ("args", args.deep_clone()),
        ("ok", (!matches!(end, CallEnd::Failed(_))).into()),
    ]);
    if let CallEnd::Skipped(_) = end {
        entry.put("skipped", true);
    }
    match end {
        CallEnd::Ran(value) | CallEnd::Skipped(value) => entry.put("result", recorded(value)),
        CallEnd::Failed(error) => entry.put("error", shortened(error.to_owned(), MAX_RECORDED)),
    }
    // An array that is full or frozen by a script is not changed.
    let _ = trace.push(entry);
}

/// Returns a result in the form that the trace stores.
fn recorded(value: &Json) -> Json {
    match value {
        Json::Text(text) => shortened(text.to_string(), MAX_RECORDED).into(),
        value => {
            let text = value.to_string();
            if text.len() <= MAX_RECORDED { value.deep_clone() } else { shortened(text, MAX_RECORDED).into() }
        }
    }
}

/// Builds the value that filters receive for a call; `caller` is the plugin whose script made it.
fn ctx_of<const N: usize>(turn: &Turn, parts: [(&str, Json); N]) -> Json {
    let ctx = turn.ctx_of(parts);
    if let Some(caller) = turn.caller() {
        // The object is new and holds a new text, so the write cannot fail.
        ctx.put("caller", caller);
    }
    ctx
}

/// Runs a tool once per step: if the step runs again because a later filter asked a person, the recorded result
/// is returned.
async fn run_once(tool: &Tool, args: Json, turn: &Turn) -> Result<ToolResult, ToolError> {
    let Some(pauses) = turn.pauses() else { return run(tool, args, turn).await };
    let by = format!("tool:{}", tool.name());
    let by = turn.recorded_by(&by);
    match pauses.host_call(&by, "run", &args) {
        HostCall::Known(HostResult::Value(recorded)) => ToolResult::from_json(&recorded),
        HostCall::New(place) => {
            let result = run(tool, args, turn).await;
            let recorded = (!turn.is_paused()).then(|| HostResult::Value(ToolResult::to_json(&result)));
            pauses.host_called(&by, place, recorded);
            result
        }
        // Other arguments make another call.
        _ => run(tool, args, turn).await,
    }
}

/// Runs the tool in a `tracing` span and records it in the trace of the turn, if any.
async fn run(tool: &Tool, args: Json, turn: &Turn) -> Result<ToolResult, ToolError> {
    let module = tool.spec.module.as_deref();
    let step = turn.trace().map(|trace| {
        let plugin = module.unwrap_or(tool.name());
        let name =
            if plugin == tool.name() { plugin.to_owned() } else { format!("{plugin}/{}", tool.name()) };
        trace.begin(What::Tool { name: &name, plugin }, &args)
    });
    let span = spans::tool_call(tool.name(), module);
    let result = tool.run(args, turn).instrument(span.clone()).await;
    let is_paused = turn.is_paused();
    if let Some(error) = result.as_ref().err().filter(|_| !is_paused) {
        spans::failed(&span, &error.message);
    }
    if let Some(step) = step {
        match &result {
            _ if is_paused => step.end("paused", None, None),
            Ok(result) => step.end("ended", None, Some(&result.value)),
            Err(error) => step.end("failed", Some(&error.message), None),
        };
    }
    result
}

/// Converts a tool's error to a rejection.
fn refusal(tool: &Tool, error: ToolError) -> Rejection {
    let ToolError { message, fatal, status, content, .. } = error;
    let plugin = tool.name().into();
    Rejection { fatal, plugin, content, ..Rejection::new(message).with_status(status.into()) }
}

/// Runs the filters that handle failures; they may replace the error with a result.
async fn failed(
    chain: &Chain,
    about: Json,
    args: Json,
    rejection: Rejection,
    turn: &Turn,
) -> Result<Json, Error> {
    if !chain.sees_failures() {
        return Err(Error::Rejected(rejection));
    }
    let error = rejection.message.as_str().into();
    let parts = [("tool", about), ("args", args), ("result", Json::Null), ("error", error)];
    match chain.run_after_failure(ctx_of(turn, parts), turn).await? {
        ChainOutcome::Skipped(value) => Ok(value),
        ChainOutcome::Done(ctx) => {
            ctx.get("result").filter(|result| !result.is_null()).ok_or(Error::Rejected(rejection))
        }
    }
}

/// Returns the chain of the kernel's filters and the tool's own.
fn chain_of(kernel: &Kernel, tool: &Tool) -> Chain {
    if tool.filters.is_empty() {
        return kernel.chain().clone();
    }
    let filters = kernel.chain().filters();
    // A filter that runs for all tools runs only once.
    let own = tool.filters.iter().filter(|own| !filters.iter().any(|filter| filter.name() == own.name()));
    Chain::new(filters.iter().chain(own).cloned().collect())
}

/// A model's tool call in a stored turn.
pub(super) struct StoredCall<'a> {
    call: &'a ModelCall,
    progress: &'a Progress,
    journal: &'a dyn Journal,
}

/// Runs a model's tool call and returns the content of the tool message, a text or a list of parts. Errors are returned
/// to the model; only fatal errors end the turn.
pub(super) async fn answer_call(
    kernel: &Kernel,
    call: &ModelCall,
    progress: &Progress,
    turn: &Turn,
    journal: Option<&dyn Journal>,
) -> Result<Json, Error> {
    let changed = progress.arguments.get(&call.id);
    let args = changed.clone().map_or_else(|| call.parse(), Ok);
    let called = || ToolCalled {
        id: call.id.to_string(),
        name: call.name.to_string(),
        arguments: args.as_ref().ok().cloned().into(),
        tags: kernel.find_tool(&call.name).map_or_else(Vec::new, |tool| tool.spec.tags.clone()),
    };
    turn.notify(NoticeKind::ToolStart, || Notice::ToolStart { call: called() });
    let result = match &args {
        Ok(args) => {
            let starting = journal.map(|journal| StoredCall { call, progress, journal });
            match find(kernel, &call.name) {
                Ok(tool) => invoke(kernel, tool, args.clone(), turn, starting).await,
                Err(unknown) => Err(unknown),
            }
        }
        Err(error) => Err(Error::Rejected(Rejection::new(error.to_string()))),
    };
    let outcome = match result {
        Ok(output) => {
            let changed = changed.or_else(|| output.changed.clone());
            Ok(output.into_message(changed.as_ref()))
        }
        Err(Error::Rejected(rejection)) if !rejection.fatal => Err((rejection.message, rejection.content)),
        Err(Error::Request { message, .. }) => Err((message, None)),
        Err(Error::Paused) => return Err(Error::Paused),
        Err(error) => {
            turn.notify(NoticeKind::ToolError, || Notice::ToolError {
                call: called(),
                message: error.to_string(),
            });
            return Err(error);
        }
    };
    Ok(match outcome {
        Ok(result) => {
            let text = || tool_results::text_of(&message::tool(&call.id, result.clone()));
            turn.notify(NoticeKind::ToolEnd, || Notice::ToolEnd { call: called(), result: text() });
            result
        }
        Err((message, content)) => {
            turn.notify(NoticeKind::ToolError, || Notice::ToolError {
                call: called(),
                message: message.clone(),
            });
            failure(&message, content.as_ref())
        }
    })
}

impl Kernel {
    /// Returns the kernel that runs a turn, with the tools that the turn offers. `None` if no kernel runs it.
    pub fn of_turn(turn: &Turn) -> Option<Self> {
        turn.runner().and_then(Self::from_runner)
    }

    /// Sets this kernel as the one that runs a turn. [`Kernel::run`] does so itself.
    pub fn runs(&self, turn: &Turn) {
        turn.run_by(self.to_runner());
    }

    /// Calls one of the kernel's tools from a filter or a tool, whose name is `caller`, through the filters and in the
    /// turn of the caller. Calls are nested at most 4 deep, and a request has at most 256 of them.
    ///
    /// ```
    /// use valvehouse_core::filter::{self, PreChat, Verdict};
    /// use valvehouse_core::kernel::Kernel;
    /// let grounded = filter::from_fn("grounded", async |chat: &mut PreChat| {
    ///     if let Some(kernel) = Kernel::of_turn(chat.turn()) {
    ///         let facts = kernel.invoke_for("grounded", "lookup", [("q", "Oslo".into())], chat.turn()).await?;
    ///         chat.context().set("facts", facts);
    ///     }
    ///     Ok(Verdict::Continue)
    /// });
    /// ```
    ///
    /// # Errors
    /// Returns an error for an unknown tool, a rejection if calls are nested too deep or too many, and the errors of a
    /// model's tool call.
    pub async fn invoke_for(
        &self,
        caller: &str,
        name: &str,
        args: impl Into<Json>,
        turn: &Turn,
    ) -> Result<Json, Error> {
        let tool = find(self, name)?.clone();
        self.call_for(caller, &tool, args.into(), turn).await
    }

    /// Calls a tool for a plugin's script, through the filters of this kernel. The kernel need not own the
    /// tool.
    ///
    /// # Errors
    /// Returns a rejection if calls are nested too deep or the turn has made too many, and the errors of a
    /// model's tool call.
    pub async fn call_for(&self, plugin: &str, tool: &Tool, args: Json, turn: &Turn) -> Result<Json, Error> {
        let turn = turn
            .calling(plugin, tool.name(), &args)
            .map_err(|many| Error::Rejected(Rejection::new(many.to_string()).with_status(500)))?;
        turn.within_limits(invoke(self, tool, args, &turn, None)).await.map(|output| output.value)
    }
}
