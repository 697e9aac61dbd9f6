//! Tools of MCP servers, called like any other tool.

use super::ask;
use super::guarded_call::GuardedCall;
use super::link::{Link, Remote};
use super::names;
use super::request::{MAX_ROUNDS, check_size, send};
use crate::pins::ToolParts;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock, InputRequests,
    InputRequiredResult, ServerResult,
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::sync::Arc;
use valvehouse_config::McpTrust;
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Handler, Parameters, Tool, ToolError, ToolResult, ToolSpec};
use valvehouse_json::Json;

/// The error for an answer of another kind.
const NO_RESULT: &str = "invalid response of the server: expected a result";

struct RemoteTool {
    link: Arc<Link>,
    tool: String,
    hash: String,
    /// The description that filters receive.
    about: Json,
}

/// The outcome of one request of a call.
enum Round {
    Over(Result<ToolResult, ToolError>),
    Asks(InputRequiredResult),
}

/// Returns a tool in the form that the host offers.
pub(super) fn mounted(link: &Arc<Link>, seen: &ToolParts) -> Tool {
    let server = &link.server;
    let mut spec = ToolSpec::new(names::name(&server.name, &seen.name));
    spec.description = seen.description.clone();
    spec.parameters = Parameters::of_schema(Json::from(seen.input_schema.clone()));
    spec.tags = vec!["mcp".into(), server.name.clone()];
    spec.timeout = server.timeout;
    spec.module = Some(server.name.clone());
    let hint = |name: &str| seen.annotations.as_ref().is_some_and(|hints| hints[name] == true);
    // A hint that was not approved must not cause a retry of a call.
    let is_approved = server.trust == McpTrust::Pin;
    spec.idempotent = is_approved && (hint("idempotentHint") || hint("readOnlyHint"));
    let metadata = Json::object();
    let more = [
        ("title", seen.title.clone().map(Value::String)),
        ("annotations", seen.annotations.clone()),
        ("output_schema", seen.output_schema.clone()),
    ];
    for (key, value) in more {
        if let Some(value) = value {
            // The object is new and not read-only.
            metadata.edit(key, Json::from(value));
        }
    }
    metadata.edit(
        "mcp",
        Json::from([("server", server.name.as_str().into()), ("tool", seen.name.as_str().into())]),
    );
    spec.metadata = metadata;
    let (tool, hash, about) = (seen.name.clone(), seen.hash(server), spec.describe().freeze());
    let handler = RemoteTool { link: link.clone(), tool, hash, about };
    Tool::new(spec, handler)
}

impl Handler for RemoteTool {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        async move { self.run(&args, &turn).await }.boxed()
    }
}

impl RemoteTool {
    async fn run(&self, args: &Json, turn: &Turn) -> Result<ToolResult, ToolError> {
        let _permit =
            self.link.calls.acquire().await.map_err(|_| "the connection to the server is closed")?;
        // The approval is checked as late as possible, because it may be revoked while the call waits.
        let remote = self.link.remote(&self.tool, &self.hash)?;
        let call = self.link.call(&self.about, args, turn);
        let mut params = CallToolRequestParams::new(self.tool.clone());
        if let Value::Object(args) = Value::from(args) {
            params = params.with_arguments(args);
        }
        for _ in 0..MAX_ROUNDS {
            let input_required = match self.round(&remote, params.clone(), &call).await? {
                Round::Over(result) => return result,
                Round::Asks(input_required) => input_required,
            };
            let inputs = input_required.input_requests.unwrap_or_else(InputRequests::new);
            let answers =
                ask::answers(&self.link.server.name, &call, inputs, self.link.server.timeout).await?;
            params.input_responses = Some(answers);
            params.request_state = input_required.request_state;
        }
        Err(format!("the server exceeded its limit of {MAX_ROUNDS} questions in one call").into())
    }

    /// Sends the call with the answers to earlier questions of the server.
    async fn round(
        &self,
        remote: &Remote,
        params: CallToolRequestParams,
        call: &Arc<GuardedCall>,
    ) -> Result<Round, ToolError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match send(&self.link, remote, request, call).await? {
            ServerResult::CallToolResult(result) => Ok(Round::Over(self.result(result))),
            ServerResult::InputRequiredResult(input_required) => Ok(Round::Asks(input_required)),
            ServerResult::CustomResult(custom) => match with_known_blocks(custom.0) {
                Some(result) => Ok(Round::Over(self.result(result))),
                None => Err(NO_RESULT.into()),
            },
            _ => Err(NO_RESULT.into()),
        }
    }

    /// Returns a result within its limits.
    fn result(&self, result: CallToolResult) -> Result<ToolResult, ToolError> {
        check_size(&self.link, &result, result.content.len())?;
        let content = serde_json::to_value(&result.content)
            .map_err(|error| format!("cannot read the result of the server: {error}"))?;
        let whole = Json::from([("content", Json::from(content))]);
        if let Some(structured) = result.structured_content {
            whole.edit("structuredContent", Json::from(structured));
        }
        if result.is_error == Some(true) {
            whole.edit("isError", true);
        }
        ToolResult::of_content(whole)
    }
}

/// Returns a result in which texts replace the content that the library cannot read: a text itself, and the type
/// of any other block.
fn with_known_blocks(mut whole: Value) -> Option<CallToolResult> {
    let content = whole.get_mut("content")?;
    if content.is_string() {
        *content = json!([content.take()]);
    }
    for block in content.as_array_mut()? {
        if ContentBlock::deserialize(&*block).is_err() {
            let kind = block["type"].as_str().unwrap_or("unknown");
            let unread = format!("[a part of the type `{kind}` that cannot be read]");
            *block = json!({ "type": "text", "text": block.as_str().unwrap_or(&unread) });
        }
    }
    serde_json::from_value(whole).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_an_unknown_type_does_not_take_the_others_away() {
        let blocks =
            json!([{ "type": "widget", "html": "x" }, { "type": "image" }, { "type": "text", "text": "a" }]);
        let read = with_known_blocks(json!({ "content": blocks, "structuredContent": 1 })).unwrap();
        let unread = |kind| ContentBlock::text(format!("[a part of the type `{kind}` that cannot be read]"));
        assert_eq!(read.content, [unread("widget"), unread("image"), ContentBlock::text("a")]);
        assert_eq!(read.structured_content, Some(json!(1)));
        let text = with_known_blocks(json!({ "content": "plain" })).unwrap();
        assert_eq!(text.content, [ContentBlock::text("plain")]);
        assert!(with_known_blocks(json!({ "other": 1 })).is_none());
    }
}
