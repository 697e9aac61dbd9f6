//! Prompts and resources of MCP servers, called like those of scripts.

use super::ask;
use super::link::Link;
use super::names;
use super::request::{MAX_ROUNDS, check_size, send};
use crate::pins::{PartKind, ToolParts};
use crate::template::fits;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext, GetPromptRequest,
    GetPromptRequestParams, InputRequests, InputResponses, ReadResourceRequest, ReadResourceRequestParams,
    Reference, ServerResult,
};
use serde_json::{Value, json};
use std::sync::Arc;
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Handler, Parameters, Tool, ToolError, ToolResult, ToolSpec};
use valvehouse_json::Json;

/// The purpose of a function.
enum Use {
    /// Returns the messages of a prompt.
    Prompt,
    /// Returns the content of a resource.
    Resource,
    /// Completes an argument of a prompt or a template.
    Completion,
}

/// A function of the host that sends requests to a server.
struct RemotePart {
    link: Arc<Link>,
    purpose: Use,
    /// The parts of the server that it may request, each with its approved hash.
    parts: Vec<(ToolParts, String)>,
    /// The description that filters receive.
    about: Json,
}

/// Returns a prompt in the form that the host offers.
pub(super) fn prompt(link: &Arc<Link>, seen: &ToolParts) -> Tool {
    let mut spec = spec(link, &names::name(&link.server.name, seen.own_name()), "prompt");
    spec.description = seen.description.clone();
    let arguments = seen.input_schema["arguments"].clone();
    let listed: Vec<&Value> = arguments.as_array().into_iter().flatten().collect();
    let named = |argument: &Value| Some((argument["name"].as_str()?.to_owned(), json!({ "type": "string" })));
    let properties: serde_json::Map<String, Value> = listed.iter().copied().filter_map(named).collect();
    let required: Vec<&Value> = listed
        .iter()
        .filter(|argument| argument["required"] == true)
        .map(|argument| &argument["name"])
        .collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    spec.parameters = Parameters::of_schema(Json::from(schema));
    let mut declared = json!({ "name": spec.name });
    for (key, value) in [
        ("title", seen.title.clone().map_or(Value::Null, Value::String)),
        ("description", Value::String(seen.description.clone())),
        ("arguments", arguments),
    ] {
        if !value.is_null() && value != "" {
            declared[key] = value;
        }
    }
    // The object is new and not read-only.
    spec.metadata.edit("prompt", Json::from(declared));
    RemotePart::tool(spec, link, Use::Prompt, &[seen])
}

/// Returns the function that reads the resources and templates of a server.
pub(super) fn resources(link: &Arc<Link>, seen: &[&ToolParts]) -> Tool {
    let mut spec = spec(link, "resource", "resource");
    spec.description = format!("Returns the content of a resource of the MCP server `{}`", link.server.name);
    let schema =
        json!({ "type": "object", "properties": { "uri": { "type": "string" } }, "required": ["uri"] });
    spec.parameters = Parameters::of_schema(Json::from(schema));
    let list = |kind: PartKind, key: &str| {
        let of_kind = seen.iter().filter(|part| part.kind == kind);
        let declared = of_kind.map(|part| {
            let mut declared = part.input_schema.clone();
            declared[key] = json!(part.own_name());
            if let Some(title) = &part.title {
                declared["title"] = json!(title);
            }
            if !part.description.is_empty() {
                declared["description"] = json!(part.description);
            }
            declared
        });
        Json::from(Value::Array(declared.collect()))
    };
    // The object is new and not read-only.
    spec.metadata.edit("resources", list(PartKind::Resource, "uri"));
    spec.metadata.edit("templates", list(PartKind::Template, "uriTemplate"));
    RemotePart::tool(spec, link, Use::Resource, seen)
}

/// Returns the function that completes the arguments of a prompt or a template.
pub(super) fn completion(link: &Arc<Link>, seen: &ToolParts) -> Tool {
    let spec = spec(link, "complete", "completion");
    let of = match seen.kind {
        PartKind::Prompt => names::name(&link.server.name, seen.own_name()),
        _ => seen.own_name().to_owned(),
    };
    spec.metadata.edit("of", of);
    RemotePart::tool(spec, link, Use::Completion, &[seen])
}

/// Returns the specification that these functions share.
fn spec(link: &Link, name: &str, tag: &str) -> ToolSpec {
    let server = &link.server;
    let mut spec = ToolSpec::new(name);
    spec.tags = vec!["mcp".into(), server.name.clone(), tag.into()];
    spec.timeout = server.timeout;
    spec.module = Some(server.name.clone());
    spec.metadata = Json::from([("mcp", Json::from([("server", server.name.as_str().into())]))]);
    spec
}

impl Handler for RemotePart {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        async move { self.run(&args, &turn).await }.boxed()
    }
}

impl RemotePart {
    fn tool(spec: ToolSpec, link: &Arc<Link>, purpose: Use, seen: &[&ToolParts]) -> Tool {
        let parts = seen.iter().map(|part| ((*part).clone(), part.hash(&link.server))).collect();
        let about = spec.describe().freeze();
        Tool::new(spec, Self { link: link.clone(), purpose, parts, about })
    }

    /// Returns the requested part: a resource by its URI, or the first template that the URI matches.
    fn part(&self, args: &Json) -> Result<&(ToolParts, String), ToolError> {
        let uri = args.string("uri");
        let is_meant = |part: &&(ToolParts, String)| match part.0.kind {
            PartKind::Resource => part.0.own_name() == uri,
            PartKind::Template if matches!(self.purpose, Use::Resource) => fits(part.0.own_name(), &uri),
            _ => true,
        };
        let meant = |kind: PartKind| self.parts.iter().filter(move |part| part.0.kind == kind).find(is_meant);
        let found = [PartKind::Prompt, PartKind::Resource, PartKind::Template].into_iter().find_map(meant);
        found.ok_or_else(|| {
            let server = &self.link.server.name;
            ToolError::from(format!(
                "unknown resource `{uri}`: the server `{server}` has none of that URI that is approved"
            ))
            .answer()
        })
    }

    async fn run(&self, args: &Json, turn: &Turn) -> Result<ToolResult, ToolError> {
        let (part, hash) = self.part(args)?;
        let _permit =
            self.link.calls.acquire().await.map_err(|_| "the connection to the server is closed")?;
        // The approval is checked as late as possible, because it may be revoked while the call waits.
        let remote = self.link.remote(&part.name, hash)?;
        if let Use::Completion = self.purpose {
            let completes = remote.peer_info().is_some_and(|info| info.capabilities.completions.is_some());
            if !completes {
                return Ok(Json::array().into());
            }
        }
        let call = self.link.call(&self.about, args, turn);
        let (mut responses, mut state) = (None, None);
        for _ in 0..MAX_ROUNDS {
            let request = self.request(part, args, responses.take(), state.take())?;
            let input_required = match send(&self.link, &remote, request, &call).await? {
                ServerResult::InputRequiredResult(input_required) => input_required,
                result => return self.result(result),
            };
            let inputs = input_required.input_requests.unwrap_or_else(InputRequests::new);
            let server = &self.link.server;
            responses = Some(ask::answers(&server.name, &call, inputs, server.timeout).await?);
            state = input_required.request_state;
        }
        Err(format!("the server exceeded its limit of {MAX_ROUNDS} questions in one call").into())
    }

    fn request(
        &self,
        part: &ToolParts,
        args: &Json,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) -> Result<ClientRequest, ToolError> {
        Ok(match self.purpose {
            Use::Prompt => {
                let mut params = GetPromptRequestParams::new(part.own_name());
                if let Value::Object(args) = Value::from(args) {
                    params.arguments = Some(args).filter(|args| !args.is_empty());
                }
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
            Use::Resource => {
                let mut params = ReadResourceRequestParams::new(args.string("uri"));
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Use::Completion => {
                let of = match part.kind {
                    PartKind::Prompt => Reference::for_prompt(part.own_name()),
                    _ => Reference::for_resource(part.own_name()),
                };
                let argument = json!({ "name": args.string("argument"), "value": args.string("value") });
                let argument: ArgumentInfo =
                    serde_json::from_value(argument).map_err(|error| error.to_string())?;
                let mut params = CompleteRequestParams::new(of, argument);
                let known = Value::from(&args.field("arguments"));
                let mut context = CompletionContext::new();
                context.arguments = serde_json::from_value(known).ok();
                params.context = Some(context).filter(|context| context.arguments.is_some());
                ClientRequest::CompleteRequest(CompleteRequest::new(params))
            }
        })
    }

    /// Returns a result within its limits, in the form that prompts and resources of scripts return.
    fn result(&self, result: ServerResult) -> Result<ToolResult, ToolError> {
        let value = match result {
            ServerResult::GetPromptResult(result) => {
                check_size(&self.link, &result, result.messages.len())?;
                json!({ "description": result.description, "messages": result.messages })
            }
            ServerResult::ReadResourceResult(result) => {
                check_size(&self.link, &result, result.contents.len())?;
                json!({ "contents": result.contents })
            }
            ServerResult::CompleteResult(result) => {
                check_size(&self.link, &result, result.completion.values.len())?;
                json!(result.completion)
            }
            _ => return Err("invalid response of the server: expected a result".into()),
        };
        Ok(Json::from(value).into())
    }
}
