//! The state of a turn between two steps, from which it can resume in this or another process.

use super::tool_search;
use crate::chat::history::is_role;
use crate::chat::{ChatRequest, ModelCall, content_blocks, message, response};
use crate::context::Turn;
use crate::error::Error;
use futures_util::future::BoxFuture;
use valvehouse_json::Json;

/// The next step of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The inlet chain.
    Inlet,
    /// A model call: pre_chat chain, model, stream chain.
    Model,
    /// The post_chat chain, on the model's answer.
    PostChat,
    /// The first tool call that has no result yet.
    Tools,
    /// The outlet chain.
    Outlet,
    /// No step: the answer is complete.
    End,
}

impl Next {
    /// All steps, in the order of a turn.
    pub const ALL: [Self; 6] =
        [Self::Inlet, Self::Model, Self::PostChat, Self::Tools, Self::Outlet, Self::End];

    /// Returns the name of the step in stored runs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inlet => "inlet",
            Self::Model => "model",
            Self::PostChat => "post_chat",
            Self::Tools => "tools",
            Self::Outlet => "outlet",
            Self::End => "end",
        }
    }

    /// Returns the step of a name, `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|next| next.name() == name)
    }
}

impl From<ChatRequest> for Progress {
    fn from(request: ChatRequest) -> Self {
        Self::new(request)
    }
}

/// The state of a turn between two steps. Its values are live: the next step changes them.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The next step.
    pub next: Next,
    /// The request body, after inlet as changed by the filters. Its messages include those of the turn so far.
    pub body: Json,
    /// The requested model, before an inlet changed it.
    pub model: Json,
    /// The messages of this turn, a list of the model's messages and the tool results.
    pub transcript: Json,
    /// The number of model calls.
    pub iterations: usize,
    /// The model's latest answer, a `chat.completion`.
    pub response: Json,
    /// The messages that the latest answer refers to.
    pub request_messages: Json,
    /// The total usage of the model calls before the latest; null if there were none.
    pub usage: Json,
    /// The arguments with which a person replaced those of a call, by call id.
    pub arguments: Json,
    /// The names of the tools that searches found in this turn, a list; null if none was found.
    pub found: Json,
}

impl Progress {
    /// Creates the state of a new turn.
    pub fn new(request: ChatRequest) -> Self {
        Self::of(request.into_body(), Next::Inlet)
    }

    /// Creates the state of a finished turn; `body` is that of the next turn.
    pub fn ended(body: Json) -> Self {
        Self::of(body, Next::End)
    }

    fn of(body: Json, next: Next) -> Self {
        Self {
            next,
            model: body.field("model"),
            body,
            transcript: Json::array(),
            iterations: 0,
            response: Json::Null,
            request_messages: Json::Null,
            usage: Json::Null,
            arguments: Json::object(),
            found: Json::Null,
        }
    }

    /// Returns a deep copy that does not change with the turn.
    #[must_use]
    pub fn deep_clone(&self) -> Self {
        Self {
            next: self.next,
            body: self.body.deep_clone(),
            model: self.model.deep_clone(),
            transcript: self.transcript.deep_clone(),
            iterations: self.iterations,
            response: self.response.deep_clone(),
            request_messages: self.request_messages.deep_clone(),
            usage: self.usage.deep_clone(),
            arguments: self.arguments.deep_clone(),
            found: self.found.deep_clone(),
        }
    }

    /// Converts a copy of the state to a JSON object.
    pub fn to_json(&self) -> Json {
        Json::from([
            ("next", self.next.name().into()),
            ("body", self.body.deep_clone()),
            ("model", self.model.deep_clone()),
            ("said", self.transcript.deep_clone()),
            ("iterations", self.iterations.into()),
            ("response", self.response.deep_clone()),
            ("asked", self.request_messages.deep_clone()),
            ("usage", self.usage.deep_clone()),
            ("arguments", self.arguments.deep_clone()),
            ("found", self.found.deep_clone()),
        ])
    }

    /// Reads an object created by [`Progress::to_json`]; `None` if it is invalid.
    pub fn from_json(json: &Json) -> Option<Self> {
        let part = |name: &str| json.get(name).map(|part| part.deep_clone());
        let iterations = json.get("iterations")?.as_i64()?;
        Some(Self {
            next: Next::from_name(&json.text("next")?)?,
            body: part("body").filter(|body| body.as_object().is_some())?,
            model: part("model")?,
            transcript: part("said")?,
            iterations: usize::try_from(iterations).ok()?,
            response: part("response")?,
            request_messages: part("asked")?,
            usage: part("usage").into(),
            arguments: part("arguments")?,
            found: part("found").into(),
        })
    }

    /// Returns the conversation so far, as passed to the filters of the next model call.
    pub fn messages(&self) -> Json {
        match self.body.get("messages") {
            Some(messages @ Json::Array(_)) => messages,
            _ => {
                let messages = Json::array();
                self.body.edit("messages", messages.clone());
                messages
            }
        }
    }

    /// Appends a message of this turn.
    ///
    /// # Errors
    /// Returns a host error if the messages are read-only or full.
    pub fn push_message(&self, message: Json) -> Result<(), Error> {
        for list in [&self.messages(), &self.transcript] {
            let Json::Array(list) = list else { continue };
            list.push(message.clone())
                .map_err(|error| Error::Host(format!("cannot store a message: {error}")))?;
        }
        Ok(())
    }

    /// Adds the tools in a search result to those that the model is offered from now on.
    pub(super) fn find(&mut self, result: &str) {
        let mut found = self.found.items();
        for name in tool_search::names_in(result) {
            let name = Json::from(name);
            if !found.contains(&name) {
                found.push(name);
            }
        }
        self.found = found.into();
    }

    /// Adds the usage of the latest answer, which is not the last one, to that of the turn.
    pub(super) fn add_usage(&mut self) {
        self.usage = response::add_usage(&self.usage, &self.response.field("usage"));
    }

    /// Sets the usage of the last answer to the total of the turn, with its own usage beside it.
    pub(super) fn total_usage(&self) {
        if self.usage.is_null() {
            return;
        }
        let last = self.response.field("usage");
        if last.get(response::LAST_CALL).is_some() {
            return;
        }
        let total = response::add_usage(&self.usage, &last);
        // The object is new and the value is a copy, so the write cannot fail.
        total.edit(response::LAST_CALL, last.deep_clone());
        self.response.edit("usage", total);
    }

    /// Returns `true` if the answer must have a format such as JSON, which excludes other text.
    pub(super) fn has_form(&self) -> bool {
        let kind = self.body.at_path("response_format.type");
        kind.as_str().is_some_and(|kind| kind.starts_with("json"))
    }

    /// Returns the answer for the client, with the texts of all model calls of the turn.
    pub fn answer(&self) -> Json {
        if self.transcript.is_empty() || self.has_form() {
            return self.response.clone();
        }
        let is_of_model = |message: &Json| is_role(message, "assistant");
        let texts =
            self.transcript.items().into_iter().filter(is_of_model).map(|message| message::text_of(&message));
        let mut texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
        if texts.is_empty() || self.response.at_path("choices.0").is_null() {
            return self.response.clone();
        }
        let answer = self.response.deep_clone();
        let message = response::message_of(&answer);
        let own = message::text_of(&message);
        if !own.is_empty() {
            // Citations and signatures refer to the text of the last model call.
            let earlier = texts.join(message::TEXT_BREAK) + message::TEXT_BREAK;
            content_blocks::remember_before(&message, &earlier);
            texts.push(own);
        }
        message::set_text(&message, &texts.join(message::TEXT_BREAK));
        answer
    }

    /// Returns the tool calls of the latest answer that have no result yet.
    pub fn open_calls(&self) -> Vec<ModelCall> {
        open_calls(&self.messages().items())
    }
}

/// Returns the tool calls of the last message with calls, without those that later messages answer.
pub fn open_calls(messages: &[Json]) -> Vec<ModelCall> {
    let Some(last) = messages.iter().rposition(|message| !ModelCall::all(message).is_empty()) else {
        return Vec::new();
    };
    let after = &messages[last + 1..];
    let is_answered = |call: &ModelCall| {
        let answers = after.iter().filter(|message| is_role(message, "tool"));
        answers.filter_map(|message| message.text("tool_call_id")).any(|id| id == call.id)
    };
    ModelCall::all(&messages[last]).into_iter().filter(|call| !is_answered(call)).collect()
}

/// A store for turns, from which they can resume elsewhere.
pub trait Journal: Send + Sync {
    /// Stores the state after a step; the next step starts when the future completes.
    ///
    /// # Errors
    /// Returns an error if the state cannot be stored.
    fn keep<'a>(&'a self, progress: &'a Progress, turn: &'a Turn) -> BoxFuture<'a, Result<(), Error>>;

    /// Handles a turn that pauses for a person. The stored state is that before the current step. Returns the
    /// answer for the client.
    ///
    /// # Errors
    /// Returns an error if the pause cannot be stored.
    fn pause<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<Json, Error>>;

    /// Records that a tool is about to run with these arguments, after all filters.
    ///
    /// # Errors
    /// Returns an error if the call cannot be stored; the tool does not run then.
    fn starting<'a>(
        &'a self,
        call: &'a ModelCall,
        arguments: &'a Json,
        progress: &'a Progress,
        turn: &'a Turn,
    ) -> BoxFuture<'a, Result<(), Error>>;
}
