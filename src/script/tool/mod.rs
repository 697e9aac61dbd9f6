//! A script's tools: a file that is one (`fn handler`), or a module that lists several (`fn tools`).

mod read;

#[cfg(test)]
mod tests;

pub(super) use read::{misplaced_hooks, read};

use super::Shape;
use super::answer::Answered;
use super::argument::UserValves;
use super::compile::Script;
use super::hooks::Param;
use super::problem;
use super::run::Ended;
use super::value::{dynamic_of, json_of, live};
use crate::context::{Context, Turn};
use crate::json::Json;
use crate::tool::{Declared, Handler, Tool, ToolError, ToolResult};
use futures::future::BoxFuture;
use rhai::Dynamic;
use std::sync::Arc;

/// Longest result, as JSON text: a model reads it whole.
const MAX_RESULT: usize = 1024 * 1024;
/// One tool of a script, and the function that runs.
pub(super) struct ToolFunction {
    declared: Declared,
    function: String,
    /// Curried arguments, handed in first.
    bound: Vec<Json>,
    params: Vec<Param>,
}

/// A tool that a script brings, and the filters it names for itself.
pub struct ScriptedTool {
    /// The tool, still without those filters.
    pub tool: Tool,
    /// Ids of filters that run around this tool only.
    pub filters: Vec<String>,
}

impl Script {
    /// The tools this script brings, in its own order.
    pub fn tools(self: &Arc<Self>, users: &Arc<UserValves>) -> Vec<ScriptedTool> {
        let indexes = 0..self.tools.len();
        indexes
            .map(|index| {
                let Declared { mut spec, filters } = self.tools[index].declared.clone();
                spec.module = Some(self.id().to_owned());
                let handler = ScriptTool { script: self.clone(), users: users.clone(), index };
                ScriptedTool { tool: Tool::new(spec, handler), filters }
            })
            .collect()
    }

    /// What its tools are called.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.declared.spec.name.as_str())
    }
}

/// A script's function among tools.
#[derive(Clone)]
struct ScriptTool {
    script: Arc<Script>,
    users: Arc<UserValves>,
    index: usize,
}

impl Handler for ScriptTool {
    /// On a thread that may block: a handler may compute or wait for as long as its timeout says.
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        let this = self.clone();
        Box::pin(async move {
            let call = tokio::task::spawn_blocking(move || this.run(&args, &turn));
            call.await.unwrap_or_else(|error| Err(format!("the tool's thread failed: {error}").into()))
        })
    }
}

impl ScriptTool {
    fn run(&self, args: &Json, turn: &Turn) -> Result<ToolResult, ToolError> {
        let tool = &self.script.tools[self.index];
        let bound = tool.bound.iter().map(dynamic_of);
        let params = tool.params.iter().map(|param| match param {
            Param::Subject => live(args, Shape::Plain),
            param => self.script.argument(*param, turn, &self.users),
        });
        let timeout = tool.declared.spec.timeout;
        match self.script.call_tool(&tool.function, bound.chain(params).collect(), turn, timeout) {
            Ok(value) => self.result(&value, turn.context()),
            Err(Ended::Refused(refusal)) => Err(refusal.into()),
            Err(Ended::Broken { breakage, summary }) => {
                tracing::error!(plugin = self.script.id(), tool = self.name(), "{}", breakage.cause);
                Err(format!("the tool `{}` failed: {summary}", self.name()).into())
            }
        }
    }

    fn name(&self) -> &str {
        &self.script.tools[self.index].declared.spec.name
    }

    fn result(&self, value: &Dynamic, context: &Context) -> Result<ToolResult, ToolError> {
        if let Some(answer) = value.read_lock::<Answered>() {
            return match &*answer {
                Answered::Ok(value, given) => {
                    if let Some(given) = given {
                        take(context, given);
                    }
                    self.checked(value, context)
                }
                Answered::Skip(value) => self.checked(value, context),
                Answered::Error(refusal) => Err(refusal.clone().into()),
            };
        }
        let value = json_of(value).map_err(|error| {
            self.unusable(&format!("returned what is no JSON: {}", problem::summary_of_run(&error)))
        })?;
        self.checked(&value, context)
    }

    /// The value as nobody else holds it, when a model can read it.
    fn checked(&self, value: &Json, context: &Context) -> Result<ToolResult, ToolError> {
        let value = value.copy();
        let length = match &value {
            Json::Text(text) => text.len(),
            other => match other.encode() {
                Ok(bytes) => bytes.len(),
                Err(error) => return Err(self.unusable(&format!("returned what cannot be sent: {error}"))),
            },
        };
        if length > MAX_RESULT {
            let (kb, most) = (length / 1024, MAX_RESULT / 1024);
            return Err(self.unusable(&format!("returned {kb} KB; a result may have {most} KB")));
        }
        Ok(ToolResult { value, context: Some(context.clone()) })
    }

    fn unusable(&self, what: &str) -> ToolError {
        tracing::error!(plugin = self.script.id(), tool = self.name(), "{what}");
        format!("the tool `{}` {what}", self.name()).into()
    }
}

/// Goes on with a context that a handler gave back, where it is another one than it was given.
fn take(context: &Context, given: &Json) {
    for (own, key) in [(context.variables(), "variables"), (context.metadata(), "metadata")] {
        if let (Json::Object(own), Some(Json::Object(new))) = (own, given.get(key))
            && !own.is_same(&new)
        {
            // What a handler gave back never holds the context it was given.
            let _ = own.replace(new.entries());
        }
    }
}
