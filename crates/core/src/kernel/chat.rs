//! Chats and tool calls of a program that has a kernel and no server.

use super::assembly::Kernel;
use super::invocation;
use super::progress::Progress;
use super::turn::{Manner, Tools, run};
use crate::chat::{ChatRequest, message, response};
use crate::context::{Context, Events, Turn, TurnFacts};
use crate::fault::Fault;
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
pub struct Invoked {
    /// The value.
    pub value: Json,
    /// The variables after it.
    pub context: Context,
}

/// The end of a chat.
#[derive(Debug, Clone)]
pub struct Chatted {
    /// The answer: a `chat.completion`.
    pub response: Json,
    /// The messages of this turn, the answer last.
    pub messages: Vec<Json>,
    /// The variables after it.
    pub context: Context,
}

impl Chatted {
    /// The text of the answer.
    pub fn text(&self) -> String {
        message::text_of(&response::message_of(&self.response)).into()
    }
}

impl Kernel {
    /// Calls a tool through the invocation filters.
    pub async fn invoke(&self, name: &str, args: Json, context: &Context) -> Result<Invoked, Fault> {
        let turn = Turn::new(TurnFacts::default(), context.fork(), Events::default());
        self.invoke_in(name, args, &turn).await
    }

    /// The same within a turn of the caller's own.
    pub async fn invoke_in(&self, name: &str, args: Json, turn: &Turn) -> Result<Invoked, Fault> {
        self.runs(turn);
        let work =
            async { turn.flushed(invocation::invoke(self, name, args.copy(), turn, None).await).await };
        let value = turn.lasting(work).await?;
        Ok(Invoked { value, context: turn.context().clone() })
    }

    /// One model call through the chat chains. Tool calls in the answer are left to the caller.
    pub async fn invoke_chat(&self, messages: Vec<Json>, options: ChatOptions) -> Result<Chatted, Fault> {
        self.chat(messages, options, Tools::LeftToCaller).await
    }

    /// A whole turn: model calls and tool calls in turns, until the model calls no tool.
    pub async fn chat_with_tools(&self, messages: Vec<Json>, options: ChatOptions) -> Result<Chatted, Fault> {
        self.chat(messages, options, Tools::Run).await
    }

    async fn chat(&self, messages: Vec<Json>, options: ChatOptions, tools: Tools) -> Result<Chatted, Fault> {
        let body = match &options.request {
            Some(request @ Json::Object(_)) => request.copy(),
            _ => Json::object(),
        };
        let model = options.model.as_deref().or(self.settings().model.as_deref()).unwrap_or("default");
        let messages: Vec<Json> = messages.iter().map(Json::copy).collect();
        // New values in an object that nobody else holds: they fit.
        let _ = body.set("model", model);
        let _ = body.set("messages", messages);
        let facts = TurnFacts { model: Json::from([("id", model.into())]), ..TurnFacts::default() };
        let turn = Turn::new(facts, options.context.fork(), Events::default());
        let limit = options.max_tool_iterations.unwrap_or(self.settings().max_tool_iterations);
        let mut progress = Progress::new(ChatRequest::new(body)?);
        let manner = Manner { stream: None, tools, limit, journal: None };
        let done = turn.lasting(run(self, &mut progress, &turn, manner)).await?;
        Ok(Chatted { response: done.response, messages: done.messages, context: turn.context().clone() })
    }
}
