//! A tool of another server, called like any other.

use super::ask;
use super::link::{Link, Remote};
use super::names;
use super::oauth;
use crate::pins::ToolParts;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
    ContentBlock, InputRequests, InputRequiredResult, ProgressToken, RequestId, ServerResult,
};
use rmcp::service::PeerRequestOptions;
use serde_json::Value;
use std::sync::Arc;
use valvehouse_config::{McpTransport, McpTrust};
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Handler, Parameters, Tool, ToolError, ToolResult, ToolSpec};
use valvehouse_json::Json;

/// The most blocks of content in a result.
const MAX_BLOCKS: usize = 256;

/// The most times that a server asks the person something within one call.
const MAX_ROUNDS: usize = 10;

struct RemoteTool {
    link: Arc<Link>,
    tool: String,
    hash: String,
}

/// The outcome of one request of a call.
enum Round {
    Over(Result<ToolResult, ToolError>),
    Asks(InputRequiredResult),
}

/// The tool as the host offers it.
pub(super) fn mounted(link: &Arc<Link>, seen: &ToolParts) -> Tool {
    let server = &link.server;
    let mut spec = ToolSpec::new(names::name(&server.name, &seen.name));
    spec.description = seen.description.clone();
    spec.parameters = Parameters::of_schema(Json::from(seen.input_schema.clone()));
    spec.tags = vec!["mcp".into(), server.name.clone()];
    spec.timeout = server.timeout;
    spec.module = Some(server.name.clone());
    let hint = |name: &str| seen.annotations.as_ref().is_some_and(|hints| hints[name] == true);
    // A hint that nobody approved may not make a call run twice.
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
            // New values in an object of its own: they fit.
            metadata.edit(key, Json::from(value));
        }
    }
    metadata.edit(
        "mcp",
        Json::from([("server", server.name.as_str().into()), ("tool", seen.name.as_str().into())]),
    );
    spec.metadata = metadata;
    let handler = RemoteTool { link: link.clone(), tool: seen.name.clone(), hash: seen.hash(server) };
    Tool::new(spec, handler)
}

impl Handler for RemoteTool {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        async move { self.run(&args, &turn).await }.boxed()
    }
}

impl RemoteTool {
    async fn run(&self, args: &Json, turn: &Turn) -> Result<ToolResult, ToolError> {
        let _permit = self.link.calls.acquire().await.map_err(|_| "the server is closed")?;
        // The approval is looked at as late as can be: it may have been taken back while the call waited.
        let remote = self.link.remote(&self.tool, &self.hash)?;
        let mut params = CallToolRequestParams::new(self.tool.clone());
        if let Value::Object(args) = Value::from(args) {
            params = params.with_arguments(args);
        }
        for _ in 0..MAX_ROUNDS {
            let asked = match self.round(&remote, params.clone(), turn).await? {
                Round::Over(result) => return result,
                Round::Asks(asked) => asked,
            };
            let inputs = asked.input_requests.unwrap_or_else(InputRequests::new);
            let answers =
                ask::answers(&self.link.server.name, turn, inputs, self.link.server.timeout).await?;
            params.input_responses = Some(answers);
            params.request_state = asked.request_state;
        }
        Err(format!("the server asks for more than {MAX_ROUNDS} times before it answers").into())
    }

    /// Sends the call, with the answers to what the server asked before.
    async fn round(
        &self,
        remote: &Remote,
        params: CallToolRequestParams,
        turn: &Turn,
    ) -> Result<Round, ToolError> {
        let request = CallToolRequest::new(params);
        let sent = remote
            .send_cancellable_request(
                ClientRequest::CallToolRequest(request),
                PeerRequestOptions::no_options(),
            )
            .await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.failed(&error).await),
        };
        let mut following =
            OpenCall::begin(&self.link, turn, handle.progress_token.clone(), handle.id.clone());
        let answered = handle.await_response().await;
        following.is_over = true;
        match answered {
            Ok(ServerResult::CallToolResult(result)) => Ok(Round::Over(self.result(result))),
            Ok(ServerResult::InputRequiredResult(asked)) => Ok(Round::Asks(asked)),
            Ok(_) => Err("the server answered something else than a result".into()),
            Err(error) => Err(self.failed(&error).await),
        }
    }

    async fn failed(&self, error: &ServiceError) -> ToolError {
        if let Some(why) = self.refused(error).await {
            return why.into();
        }
        if matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_)) {
            self.link.look_again.notify_one();
        }
        let why = self.link.showable(error.to_string());
        format!("the server `{}` failed: {why}", self.link.server.name).into()
    }

    /// The reason of a server that wants another token, in words for models and operators.
    async fn refused(&self, error: &ServiceError) -> Option<String> {
        let challenge = error.auth_challenge()?;
        let server = &self.link.server;
        let McpTransport::Http { url, .. } = &server.transport else { return None };
        let Some(vault) = &self.link.vault else {
            return Some(format!("the server `{}` refuses the token of `auth`", server.name));
        };
        let Some(scopes) = oauth::lacks(challenge, url) else {
            self.link.look_again.notify_one();
            let remedy = oauth::remedy(&server.name);
            return Some(format!("the server `{}` refuses the token of the login; {remedy}", server.name));
        };
        vault.note_missing(&scopes).await;
        let wanted =
            if scopes.is_empty() { "more scopes".to_owned() } else { format!("the scopes `{scopes}`") };
        let remedy = oauth::remedy(&server.name);
        Some(format!(
            "the server `{}` wants {wanted} for this call, which the login lacks; {remedy}",
            server.name
        ))
    }

    /// A result within its limits: structured content where there is some, else the text, else the content itself.
    fn result(&self, result: CallToolResult) -> Result<ToolResult, ToolError> {
        let length = serde_json::to_vec(&result).map_or(usize::MAX, |bytes| bytes.len());
        let max = self.link.server.max_result;
        if length > max {
            return Err(format!(
                "the result has {} KB; at most {} KB are taken",
                length / 1_024,
                max / 1_024
            )
            .into());
        }
        if result.content.len() > MAX_BLOCKS {
            return Err(format!(
                "the result has {} parts; at most {MAX_BLOCKS} are taken",
                result.content.len()
            )
            .into());
        }
        let texts: Option<Vec<&str>> =
            result.content.iter().map(|block| block.as_text().map(|text| text.text.as_str())).collect();
        if result.is_error == Some(true) {
            let text = texts.map(|texts| texts.join("\n")).filter(|text| !text.is_empty());
            return Err(ToolError::from(
                text.unwrap_or_else(|| "the tool failed and does not say why".into()),
            )
            .answer());
        }
        let value = match (result.structured_content, texts) {
            (Some(value), _) => Json::from(value),
            (None, Some(texts)) => texts.join("\n").into(),
            (None, None) => Json::from(serde_json::json!({ "content": blocks(&result.content) })),
        };
        Ok(value.into())
    }
}

fn blocks(content: &[ContentBlock]) -> Value {
    serde_json::to_value(content).unwrap_or_default()
}

/// A call under way: its turn hears of its progress, and the server hears when nobody waits any more.
struct OpenCall<'a> {
    link: &'a Arc<Link>,
    token: ProgressToken,
    id: RequestId,
    is_over: bool,
}

impl<'a> OpenCall<'a> {
    fn begin(link: &'a Arc<Link>, turn: &Turn, token: ProgressToken, id: RequestId) -> Self {
        link.progress.lock().insert(token.clone(), turn.clone());
        Self { link, token, id, is_over: false }
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.link.progress.lock().remove(&self.token);
        if self.is_over {
            return;
        }
        if let (Some(remote), Ok(runtime)) = (self.link.connected(), tokio::runtime::Handle::try_current()) {
            let id = self.id.clone();
            runtime.spawn(async move {
                let why = "nobody waits for the result any more".to_owned();
                let param = CancelledNotificationParam::new(Some(id), Some(why));
                if let Err(error) = remote.notify_cancelled(param).await {
                    tracing::debug!("a canceled call reaches no server: {error}");
                }
            });
        }
    }
}
