//! Chats and tool calls for programs that embed a kernel without the server.

use super::assembly::Kernel;
use super::call_output::CallOutput;
use super::invocation;
use super::options::RunOptions;
use super::turn_stream::{ChatChunks, TurnAnswer, TurnStream};
use crate::chat::{ChatRequest, IntoMessages};
use crate::context::{Context, Events, Turn, TurnFacts};
use crate::error::Error;
use futures_util::future::BoxFuture;
use valvehouse_json::Json;

/// The options of a chat.
#[derive(Debug, Clone, Default)]
pub struct ChatOptions {
    /// The name of the model; may be omitted if the provider has only one.
    pub model: Option<String>,
    /// The initial variables. The answer holds the context with the changes of the turn.
    pub context: Context,
    /// The maximum number of model calls; by default, the kernel's setting.
    pub max_tool_iterations: Option<usize>,
    /// Additional fields of the request, such as `temperature` or `tools`.
    pub request: Option<Json>,
}

/// The output of a tool call.
#[derive(Debug, Clone)]
pub struct InvokeOutput {
    /// The result.
    pub value: Json,
    /// The content of the result, if the value is its short form; see
    /// [`ToolResult::content`](crate::tool::ToolResult::content).
    pub content: Option<Json>,
    /// The variables after the call.
    pub context: Context,
}

impl Kernel {
    /// Calls a tool through the invocation filters.
    ///
    /// # Errors
    /// Returns an error if the tool is unknown, fails, or is refused by a filter.
    pub async fn invoke(
        &self,
        name: &str,
        args: impl Into<Json>,
        context: &Context,
    ) -> Result<InvokeOutput, Error> {
        let turn = Turn::new(TurnFacts::default(), context.fork(), Events::default());
        self.invoke_in(name, args.into(), &turn).await
    }

    /// Calls a tool through the invocation filters, in an existing turn.
    ///
    /// # Errors
    /// Returns an error if the tool is unknown, fails, or is refused by a filter.
    pub async fn invoke_in(&self, name: &str, args: Json, turn: &Turn) -> Result<InvokeOutput, Error> {
        self.invoke_boxed(name, args, turn).await
    }

    // Boxed, so that it is compiled here once, and not in each package that calls tools.
    fn invoke_boxed<'a>(
        &'a self,
        name: &'a str,
        args: Json,
        turn: &'a Turn,
    ) -> BoxFuture<'a, Result<InvokeOutput, Error>> {
        Box::pin(async move {
            self.runs(turn);
            let work = async {
                let invoked = match invocation::find(self, name) {
                    Ok(tool) => invocation::invoke(self, tool, args.deep_clone(), turn, None).await,
                    Err(unknown) => Err(unknown),
                };
                turn.flushed(invoked).await
            };
            let CallOutput { value, content, .. } = turn.lasting(work).await?;
            Ok(InvokeOutput { value, content, context: turn.context().clone() })
        })
    }

    /// Runs one model call through the chat filters. Tool calls in the answer are left to the caller.
    ///
    /// # Errors
    /// Returns the error of the turn.
    pub async fn invoke_chat(
        &self,
        messages: impl IntoMessages,
        options: ChatOptions,
    ) -> Result<TurnAnswer, Error> {
        self.begin(messages, options, RunOptions::leaving_tool_calls)?.answer().await
    }

    /// Runs a complete turn with default options; see [`Kernel::chat_with_tools`].
    ///
    /// ```
    /// # async fn example() -> Result<(), valvehouse_core::Error> {
    /// use valvehouse_core::{Kernel, provider::CannedProvider};
    /// let kernel = Kernel::builder().provider(CannedProvider::new(["hello"])).build();
    /// assert_eq!(kernel.chat("good day").await?.text(), "hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of the turn.
    pub async fn chat(&self, messages: impl IntoMessages) -> Result<TurnAnswer, Error> {
        self.chat_with_tools(messages, ChatOptions::default()).await
    }

    /// Runs a complete turn with default options as a stream of chunks; see [`Kernel::stream_chat`].
    ///
    /// # Errors
    /// Returns a request error if the messages are invalid.
    pub fn stream(&self, messages: impl IntoMessages) -> Result<ChatChunks<'static>, Error> {
        Ok(self.stream_chat(messages, ChatOptions::default())?.chunks())
    }

    /// Runs a complete turn: model calls and tool calls, until the model calls no tool.
    ///
    /// # Errors
    /// Returns the error of the turn.
    pub async fn chat_with_tools(
        &self,
        messages: impl IntoMessages,
        options: ChatOptions,
    ) -> Result<TurnAnswer, Error> {
        self.begin(messages, options, |options| options)?.answer().await
    }

    /// Runs a complete turn as a stream: events of the model and of plugins as they arrive, then the complete answer.
    /// The usage is requested unless the options set `stream_options`.
    ///
    /// # Errors
    /// Returns a request error if the messages are invalid.
    pub fn stream_chat(
        &self,
        messages: impl IntoMessages,
        options: ChatOptions,
    ) -> Result<TurnStream<'static>, Error> {
        let request = options.request.clone().unwrap_or_else(Json::object).deep_clone();
        if request.get("stream_options").is_none() {
            request.edit("stream_options", [("include_usage", true.into())]);
        }
        let options = ChatOptions { request: Some(request), ..options };
        self.begin(messages, options, |options| options.streamed(true))
    }

    fn begin(
        &self,
        messages: impl IntoMessages,
        options: ChatOptions,
        how: impl FnOnce(RunOptions<'static>) -> RunOptions<'static>,
    ) -> Result<TurnStream<'static>, Error> {
        let model = options.model.as_deref().or(self.settings().model.as_deref()).unwrap_or("default");
        let messages = messages.into_messages()?;
        let own = options.request.iter().flat_map(Json::entries);
        let own = own.map(|(key, value)| (key, value.deep_clone()));
        let body = own.chain([("model".into(), model.into()), ("messages".into(), messages.into())]);
        let request = ChatRequest::new(Json::Object(body.collect()))?;
        let facts = TurnFacts { model: Json::from([("id", model.into())]), ..TurnFacts::default() };
        let (events, emitted) = Events::channel(None);
        let turn = Turn::new(facts, options.context.fork(), events);
        let way = RunOptions::new(turn).emitted(emitted).max_model_calls(options.max_tool_iterations);
        Ok(self.run(request, how(way)))
    }
}
