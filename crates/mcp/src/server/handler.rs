//! Requests of clients, answered from the current snapshot, and the parts that all sessions share.

use super::call::{Call, Outcome, is_stateless};
use super::caller::Caller;
use super::events::rank;
use super::interceptors::{self, InterceptorBreakers};
use super::limits::{check_name, check_uri};
use super::listing::{self, TTL_MS, output_schema, page};
use super::news::{ListFollower, News};
use super::{offers, result};
use parking_lot::Mutex;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CompletionInfo, CustomRequest, CustomResult, ErrorCode, ExtensionCapabilities, GetPromptRequestParams,
    GetPromptResponse, Implementation, InputResponses, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, Reference, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};
use valvehouse_core::error::{Error, Rejection};
use valvehouse_core::kernel::{InvokeOutput, Kernel};
use valvehouse_core::text::{did_you_mean, nearest};
use valvehouse_core::tool::Tool;
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The maximum number of resources that a session subscribes to.
const MAX_SUBSCRIPTIONS: usize = 256;
/// The maximum number of completions in a response.
const MAX_COMPLETIONS: usize = 100;

/// The handler of a session, or of a request without one.
#[derive(Clone)]
pub(crate) struct Handler {
    shared: Arc<SharedParts>,
    /// The sender of all requests if the transport has no headers.
    local: Option<Caller>,
    level: Arc<Mutex<LoggingLevel>>,
    /// The resources that the session subscribes to; closed at its end.
    subscribed: Arc<watch::Sender<BTreeSet<String>>>,
}

/// A call that passed the first checks.
struct CallInput<'a> {
    snapshot: &'a Snapshot,
    caller: &'a Caller,
    kernel: Kernel,
    method: &'static str,
    args: Json,
    responses: Option<InputResponses>,
    state: Option<String>,
}

impl Handler {
    pub(super) fn new(shared: Arc<SharedParts>, local: Option<Caller>) -> Self {
        Self { shared, local, level: Arc::new(Mutex::new(LoggingLevel::Info)), subscribed: Arc::default() }
    }

    fn caller(&self, extensions: &rmcp::model::Extensions) -> Result<Caller, ErrorData> {
        let given =
            extensions.get::<http::request::Parts>().and_then(|parts| parts.extensions.get::<Caller>());
        given
            .or(self.local.as_ref())
            .cloned()
            .ok_or_else(|| ErrorData::internal_error("cannot identify the sender of this request", None))
    }

    async fn call(
        &self,
        tool: &Tool,
        input: CallInput<'_>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Outcome, ErrorData> {
        let level = match is_stateless(context) {
            true => context.meta.log_level(),
            false => Some(*self.level.lock()),
        };
        let call = Call {
            app: &self.shared.app,
            caller: input.caller,
            context,
            kernel: input.kernel,
            generation: input.snapshot.generation,
            method: input.method,
            tool,
            args: input.args,
            responses: input.responses,
            state: input.state,
            level,
            updates: self.shared.updates.clone(),
        };
        call.run().await
    }
}

/// Returns the error for an unknown name, with the nearest known one.
fn unknown(what: &str, name: &str, known: &[Tool]) -> String {
    let hint = match nearest(name, known.iter().map(Tool::name)) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => format!("; there are no {what}s"),
        None => {
            let names: Vec<&str> = known.iter().map(Tool::name).take(20).collect();
            format!("; known names: {}", names.join(", "))
        }
    };
    format!("unknown {what} `{name}`{hint}; list the {what}s again: they may have changed")
}

fn fails(error: &Error) -> ErrorData {
    tracing::debug!("an MCP request failed: {error}");
    match error {
        Error::Rejected(_) | Error::Request { .. } | Error::TooOften { .. } => {
            ErrorData::invalid_params(result::words(error), None)
        }
        _ => ErrorData::internal_error(result::words(error), None),
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        if let Some(interceptors) = interceptors::capability(&self.shared.app.config) {
            let extension = (interceptors::EXTENSION.to_owned(), interceptors);
            capabilities.extensions = Some(ExtensionCapabilities::from_iter([extension]));
        }
        let mut own = Implementation::new("valvehouse", env!("CARGO_PKG_VERSION"));
        own.title = Some("Valvehouse".into());
        ServerConfig::new(capabilities).with_server_info(own)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let tools = offers::listed_tools(&self.shared.app.host.snapshot(), &caller);
        let entries = tools.iter().map(|tool| (tool.name().to_owned(), listing::tool(tool))).collect();
        let (tools, next) = page(entries, request)?;
        let mut listed = ListToolsResult::with_all_items(tools).with_ttl_ms(TTL_MS);
        listed.next_cursor = next;
        Ok(listed.with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let snapshot = self.shared.app.host.snapshot();
        check_name(&request.name)?;
        let kernel = offers::kernel(&snapshot, &caller);
        let Some(tool) = kernel.find_tool(&request.name).cloned() else {
            let tools: Vec<Tool> = kernel.toolbox().iter().cloned().collect();
            return Ok(result::failure(unknown("tool", &request.name, &tools)).into());
        };
        let args = request.arguments.map_or_else(Json::object, |args| Json::from(Value::Object(args)));
        let input = CallInput {
            snapshot: &snapshot,
            caller: &caller,
            kernel,
            method: "tools/call",
            args,
            responses: request.input_responses,
            state: request.request_state,
        };
        Ok(match self.call(&tool, input, &context).await? {
            Outcome::Value(output) => {
                let value = output.content.as_ref().unwrap_or(&output.value);
                result::of_tool(value, output_schema(&tool).is_some()).into()
            }
            Outcome::Failed(Error::Rejected(Rejection { content: Some(content), .. })) => {
                result::of_tool(&content, false).into()
            }
            Outcome::Failed(error) => result::failure(result::words(&error)).into(),
            Outcome::Asks(required) => required.into(),
        })
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let prompts = offers::prompts(&self.shared.app.host.snapshot(), &caller);
        let described = |prompt: &Tool| Value::from(&prompt.spec.metadata.field("prompt"));
        let entries = prompts.iter().map(|prompt| (prompt.name().to_owned(), described(prompt))).collect();
        let (prompts, next) = page(entries, request)?;
        let mut listed = ListPromptsResult::with_all_items(prompts).with_ttl_ms(TTL_MS);
        listed.next_cursor = next;
        Ok(listed.with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let snapshot = self.shared.app.host.snapshot();
        check_name(&request.name)?;
        let prompts = offers::prompts(&snapshot, &caller);
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name() == request.name).cloned() else {
            return Err(ErrorData::invalid_params(unknown("prompt", &request.name, &prompts), None));
        };
        let args = request.arguments.map_or_else(Json::object, |args| Json::from(Value::Object(args)));
        let input = CallInput {
            snapshot: &snapshot,
            caller: &caller,
            kernel: snapshot.invoking_only(prompts),
            method: "prompts/get",
            args,
            responses: request.input_responses,
            state: request.request_state,
        };
        match self.call(&prompt, input, &context).await? {
            Outcome::Value(InvokeOutput { value, .. }) => {
                let described = prompt.spec.metadata.field("prompt");
                let got = result::of_prompt(&value, &described);
                got.map(Into::into).map_err(|wrong| ErrorData::internal_error(wrong, None))
            }
            Outcome::Failed(error) => Err(fails(&error)),
            Outcome::Asks(required) => Ok(required.into()),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let functions = offers::resources(&self.shared.app.host.snapshot(), &caller);
        let (resources, next) = page(entries(&functions, "resources", "uri"), request)?;
        let mut listed = ListResourcesResult::with_all_items(resources).with_ttl_ms(TTL_MS);
        listed.next_cursor = next;
        Ok(listed.with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let functions = offers::resources(&self.shared.app.host.snapshot(), &caller);
        let (templates, next) = page(entries(&functions, "templates", "uriTemplate"), request)?;
        let mut listed = ListResourceTemplatesResult::with_all_items(templates).with_ttl_ms(TTL_MS);
        listed.next_cursor = next;
        Ok(listed.with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let snapshot = self.shared.app.host.snapshot();
        let functions = offers::resources(&snapshot, &caller);
        let uri = request.uri;
        check_uri(&uri)?;
        let missing = || {
            let known = offers::listed(&functions, "resources");
            let known: Vec<String> =
                known.iter().filter_map(|(entry, _)| entry.text("uri").map(String::from)).collect();
            let near = did_you_mean(&uri, known.iter().map(String::as_str));
            ErrorData::resource_not_found(
                format!("unknown resource `{uri}`{near}"),
                Some(json!({ "uri": uri })),
            )
        };
        let Some(reader) = offers::reader(&functions, &uri) else { return Err(missing()) };
        let input = CallInput {
            snapshot: &snapshot,
            caller: &caller,
            // The functions of all scripts are named `resource`, so only the requested one is passed.
            kernel: snapshot.invoking_only(vec![reader.clone()]),
            method: "resources/read",
            args: Json::from([("uri", uri.as_str().into())]),
            responses: request.input_responses,
            state: request.request_state,
        };
        match self.call(&reader, input, &context).await? {
            Outcome::Value(InvokeOutput { value, .. }) => {
                let listed = offers::listed(&functions, "resources");
                let entry =
                    listed.iter().find(|(entry, _)| entry.text("uri").is_some_and(|own| *own == *uri));
                let mime = entry.and_then(|(entry, _)| entry.text("mimeType"));
                match result::of_resource(&value, &uri, mime.as_deref()) {
                    None => Err(missing()),
                    Some(read) => {
                        read.map(Into::into).map_err(|wrong| ErrorData::internal_error(wrong, None))
                    }
                }
            }
            Outcome::Failed(error) => Err(fails(&error)),
            Outcome::Asks(required) => Ok(required.into()),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let snapshot = self.shared.app.host.snapshot();
        let of = match &request.r#ref {
            Reference::Prompt(prompt) => {
                check_name(&prompt.name)?;
                prompt.name.clone()
            }
            Reference::Resource(template) => {
                check_uri(&template.uri)?;
                template.uri.clone()
            }
            _ => String::new(),
        };
        let is_of = |tool: &&Tool| tool.spec.metadata.text("of").is_some_and(|own| *own == *of);
        let completions = offers::completions(&snapshot, &caller);
        let Some(completion) = completions.iter().find(is_of).cloned() else {
            return Ok(CompleteResult::default());
        };
        let arguments = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let input = CallInput {
            snapshot: &snapshot,
            caller: &caller,
            kernel: snapshot.invoking_only(vec![completion.clone()]),
            method: "completion/complete",
            args: Json::from([
                ("argument", request.argument.name.as_str().into()),
                ("value", request.argument.value.as_str().into()),
                ("arguments", Json::from(json!(arguments))),
            ]),
            responses: None,
            state: None,
        };
        match self.call(&completion, input, &context).await? {
            Outcome::Value(output) => Ok(completed(&output.value)),
            Outcome::Failed(error) => Err(fails(&error)),
            Outcome::Asks(_) => {
                Err(ErrorData::internal_error("a completion cannot send questions to the client", None))
            }
        }
    }

    /// Handles the methods of extensions.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let caller = self.caller(&context.extensions)?;
        let app = &self.shared.app;
        let unknown = || ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method.clone(), None);
        // A key without access to `/mcp` cannot call filters either.
        if app.config.interceptors.is_empty() || caller.tools.is_empty() {
            return Err(unknown());
        }
        let mut result = match request.method.as_str() {
            "interceptors/list" => {
                let event = request.params.as_ref().and_then(|params| params["event"].as_str());
                interceptors::list(&app.config, &app.host.snapshot(), event)
            }
            "interceptor/invoke" => tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the client canceled this call", None));
                }
                result = interceptors::invoke(app, &self.shared.breakers, &caller, request.params.clone()) => result?,
            },
            _ => return Err(unknown()),
        };
        if is_stateless(&context) {
            result["resultType"] = "complete".into();
        }
        Ok(CustomResult::new(result))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tracing::debug!(level = rank(request.level), "a client sets its log level");
        *self.level.lock() = request.level;
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context.extensions)?;
        check_uri(&request.uri)?;
        let functions = offers::resources(&self.shared.app.host.snapshot(), &caller);
        if offers::reader(&functions, &request.uri).is_none() {
            let message = format!("unknown resource `{}`", request.uri);
            return Err(ErrorData::resource_not_found(message, Some(json!({ "uri": request.uri }))));
        }
        let mut is_full = false;
        self.subscribed.send_if_modified(|subscribed| {
            is_full = subscribed.len() >= MAX_SUBSCRIPTIONS && !subscribed.contains(&request.uri);
            !is_full && subscribed.insert(request.uri)
        });
        if is_full {
            let message = format!(
                "the session exceeded its limit of {MAX_SUBSCRIPTIONS} subscriptions; unsubscribe from a resource"
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        check_uri(&request.uri)?;
        self.subscribed.send_if_modified(|subscribed| subscribed.remove(&request.uri));
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|uri| check_uri(uri).is_ok());
            uris.truncate(MAX_SUBSCRIPTIONS);
        }
        Some(accepted)
    }

    /// Handles the standing stream of a client without a session.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let caller = self.caller(&context.request_context().extensions)?;
        for uri in context.requested().resource_subscriptions.iter().flatten() {
            check_uri(uri)?;
        }
        let uris: BTreeSet<String> =
            context.accepted().resource_subscriptions.iter().flatten().cloned().collect();
        let uris = watch::Sender::new(uris);
        let mut following =
            ListFollower::begin(&self.shared.app, caller, &self.shared.updates, uris.subscribe());
        let stopped = self.shared.app.stopped();
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let news = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = &mut stopped => return Ok(()),
                news = following.next() => news,
            };
            let Some(news) = news else { return Ok(()) };
            for one in news {
                let sink = context.sink();
                let sent = match one {
                    News::Tools => sink.notify_tool_list_changed().await,
                    News::Prompts => sink.notify_prompt_list_changed().await,
                    News::Resources => sink.notify_resource_list_changed().await,
                    News::Updated(uri) => sink.notify_resource_updated(uri).await,
                };
                if let Err(error) = sent {
                    tracing::debug!("cannot notify the client: {error}");
                }
            }
        }
    }

    /// Starts a session, which is notified of changes until it ends.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(caller) = self.caller(&context.extensions) else { return };
        let subscribed = self.subscribed.subscribe();
        let mut following = ListFollower::begin(&self.shared.app, caller, &self.shared.updates, subscribed);
        let peer = context.peer.clone();
        let stopped = self.shared.app.stopped();
        tokio::spawn(async move {
            let mut stopped = std::pin::pin!(stopped);
            while !peer.is_transport_closed() {
                let news = tokio::select! {
                    () = &mut stopped => return,
                    news = following.next() => news,
                };
                let Some(news) = news else { return };
                for one in news {
                    let sent = match one {
                        News::Tools => peer.notify_tool_list_changed().await,
                        News::Prompts => peer.notify_prompt_list_changed().await,
                        News::Resources => peer.notify_resource_list_changed().await,
                        News::Updated(uri) => {
                            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                        }
                    };
                    if let Err(error) = sent {
                        tracing::debug!("cannot notify the client: {error}");
                        return;
                    }
                }
            }
        });
    }
}

fn entries(functions: &[Tool], which: &str, key: &str) -> Vec<(String, Value)> {
    let listed = offers::listed(functions, which).into_iter();
    listed
        .map(|(entry, _)| {
            let mut value = Value::from(&entry);
            if let Some(map) = value.as_object_mut() {
                map.retain(|name, _| name != "complete");
            }
            (entry.string(key), value)
        })
        .collect()
}

/// Returns a completion from a list of texts, or from `#{ values, total, hasMore }`.
fn completed(value: &Json) -> CompleteResult {
    let values = value.get("values").filter(|_| value.as_object().is_some()).unwrap_or_else(|| value.clone());
    let texts: Vec<String> = values
        .items()
        .iter()
        .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
        .collect();
    let (count, all) = (texts.len(), value.get("total").and_then(|total| total.as_i64()));
    let mut info = CompletionInfo::default();
    info.values = texts.into_iter().take(MAX_COMPLETIONS).collect();
    info.total = all.and_then(|all| u32::try_from(all).ok()).or_else(|| u32::try_from(count).ok());
    info.has_more =
        Some(value.get("hasMore").and_then(|more| more.as_bool()).unwrap_or(count > MAX_COMPLETIONS));
    let mut result = CompleteResult::default();
    result.completion = info;
    result
}

/// The parts that all sessions share.
pub(super) struct SharedParts {
    pub(super) app: Arc<App>,
    /// The channel for URIs of changed resources.
    pub(super) updates: broadcast::Sender<String>,
    /// The circuit breakers of filters for calls as interceptors.
    pub(super) breakers: InterceptorBreakers,
}
