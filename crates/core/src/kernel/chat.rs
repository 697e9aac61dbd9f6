//! Chats and tool calls of a program that has a kernel and no server.

use super::assembly::Kernel;
use super::invocation;
use super::options::RunOptions;
use super::turn_stream::{TurnAnswer, TurnStream};
use crate::chat::ChatRequest;
use crate::context::{Context, Events, Turn, TurnFacts};
use crate::fault::Fault;
use futures_util::future::BoxFuture;
use valvehouse_json::Json;

/// The options of a chat of the library.
#[derive(Debug, Clone, Default)]
pub struct ChatOptions {
    /// The model's name; the provider's only one where none is given.
    pub model: Option<String>,
    /// Variables to begin with. What the turn changes comes back in the outcome.
    pub context: Context,
    /// Model calls the turn may take; the kernel's setting where none is given.
    pub max_tool_iterations: Option<usize>,
    /// Further fields of the request: `temperature`, `tools` …
    pub request: Option<Json>,
}

/// The end of a tool call.
#[derive(Debug, Clone)]
pub struct InvokeOutput {
    /// The value.
    pub value: Json,
    /// The variables after it.
    pub context: Context,
}

impl Kernel {
    /// Calls a tool through the invocation filters.
    pub async fn invoke(&self, name: &str, args: Json, context: &Context) -> Result<InvokeOutput, Fault> {
        let turn = Turn::new(TurnFacts::default(), context.fork(), Events::default());
        self.invoke_in(name, args, &turn).await
    }

    /// The same within a turn of the caller's own.
    pub async fn invoke_in(&self, name: &str, args: Json, turn: &Turn) -> Result<InvokeOutput, Fault> {
        self.invoke_boxed(name, args, turn).await
    }

    // Boxed, so that it is compiled here once, and not in each package that calls tools.
    fn invoke_boxed<'a>(
        &'a self,
        name: &'a str,
        args: Json,
        turn: &'a Turn,
    ) -> BoxFuture<'a, Result<InvokeOutput, Fault>> {
        Box::pin(async move {
            self.runs(turn);
            let work = async {
                let invoked = match invocation::find(self, name) {
                    Ok(tool) => invocation::invoke(self, tool, args.copy(), turn, None).await,
                    Err(unknown) => Err(unknown),
                };
                turn.flushed(invoked).await
            };
            let value = turn.lasting(work).await?;
            Ok(InvokeOutput { value, context: turn.context().clone() })
        })
    }

    /// One model call through the chat chains. Tool calls in the answer are left to the caller.
    ///
    /// # Errors
    /// Returns the fault of the turn.
    pub async fn invoke_chat(&self, messages: Vec<Json>, options: ChatOptions) -> Result<TurnAnswer, Fault> {
        self.chat(messages, options, RunOptions::leaving_tool_calls)?.answer().await
    }

    /// A whole turn: model calls and tool calls in turns, until the model calls no tool.
    ///
    /// # Errors
    /// Returns the fault of the turn.
    pub async fn chat_with_tools(
        &self,
        messages: Vec<Json>,
        options: ChatOptions,
    ) -> Result<TurnAnswer, Fault> {
        self.chat(messages, options, |options| options)?.answer().await
    }

    /// The same turn as a stream: events of the answer as they arrive, then the whole answer.
    ///
    /// # Errors
    /// Returns a request fault for messages that no chat can have.
    pub fn stream_chat(
        &self,
        messages: Vec<Json>,
        options: ChatOptions,
    ) -> Result<TurnStream<'static>, Fault> {
        self.chat(messages, options, |options| options.streamed(true))
    }

    fn chat(
        &self,
        messages: Vec<Json>,
        options: ChatOptions,
        how: impl FnOnce(RunOptions<'static>) -> RunOptions<'static>,
    ) -> Result<TurnStream<'static>, Fault> {
        let model = options.model.as_deref().or(self.settings().model.as_deref()).unwrap_or("default");
        let messages: Vec<Json> = messages.iter().map(Json::copy).collect();
        let own = options.request.iter().flat_map(Json::entries);
        let own = own.map(|(key, value)| (key, value.copy()));
        let body = own.chain([("model".into(), model.into()), ("messages".into(), messages.into())]);
        let request = ChatRequest::new(Json::Object(body.collect()))?;
        let facts = TurnFacts { model: Json::from([("id", model.into())]), ..TurnFacts::default() };
        let turn = Turn::new(facts, options.context.fork(), Events::default());
        let way = RunOptions::new(turn).max_model_calls(options.max_tool_iterations);
        Ok(self.run(request, how(way)))
    }
}
