//! A turn between two of its steps: what has to be known to go on with it, here or elsewhere.

use super::tool_search;
use crate::anthropic;
use crate::chat::history::is_role;
use crate::chat::{ChatRequest, ModelCall, message, response};
use crate::context::Turn;
use crate::fault::Fault;
use futures_util::future::BoxFuture;
use valvehouse_json::Json;

/// The step that is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The inlet chain.
    Inlet,
    /// A model call: pre_chat chain, model, stream chain.
    Model,
    /// The post_chat chain on what the model answered.
    PostChat,
    /// The first tool call that has no result yet.
    Tools,
    /// The outlet chain.
    Outlet,
    /// Nothing: the answer is there.
    End,
}

impl Next {
    /// All steps, in the order of a turn.
    pub const ALL: [Self; 6] =
        [Self::Inlet, Self::Model, Self::PostChat, Self::Tools, Self::Outlet, Self::End];

    /// The word for it in stored runs.
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

    /// The step of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|next| next.name() == name)
    }
}

impl From<ChatRequest> for Progress {
    fn from(request: ChatRequest) -> Self {
        Self::new(request)
    }
}

/// A turn between two steps. Its values are live: the next step changes them.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The step that is next.
    pub next: Next,
    /// The request's body; after inlet as the filters left it. Its messages grow with the turn.
    pub body: Json,
    /// The model that was asked for, before an inlet wrote another.
    pub model: Json,
    /// The messages of this turn, a list: the model's messages and the tools' results.
    pub said: Json,
    /// The number of calls of the model.
    pub iterations: usize,
    /// The model's latest answer, a `chat.completion`.
    pub response: Json,
    /// The messages that answer was given to.
    pub asked: Json,
    /// The usage of the model calls before the latest, added up; null where there were none.
    pub usage: Json,
    /// Arguments that a person put in place of a call's own, by the call's id.
    pub arguments: Json,
    /// The names of the tools that a search found in this turn, a list; null where none was found.
    pub found: Json,
}

impl Progress {
    /// A turn that has not begun.
    pub fn new(request: ChatRequest) -> Self {
        Self::of(request.into_body(), Next::Inlet)
    }

    /// A turn that is over, with this body for the next.
    pub fn ended(body: Json) -> Self {
        Self::of(body, Next::End)
    }

    fn of(body: Json, next: Next) -> Self {
        Self {
            next,
            model: body.field("model"),
            body,
            said: Json::array(),
            iterations: 0,
            response: Json::Null,
            asked: Json::Null,
            usage: Json::Null,
            arguments: Json::object(),
            found: Json::Null,
        }
    }

    /// The same, apart from what goes on.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            next: self.next,
            body: self.body.copy(),
            model: self.model.copy(),
            said: self.said.copy(),
            iterations: self.iterations,
            response: self.response.copy(),
            asked: self.asked.copy(),
            usage: self.usage.copy(),
            arguments: self.arguments.copy(),
            found: self.found.copy(),
        }
    }

    /// As one object, apart from what goes on.
    pub fn to_json(&self) -> Json {
        Json::from([
            ("next", self.next.name().into()),
            ("body", self.body.copy()),
            ("model", self.model.copy()),
            ("said", self.said.copy()),
            ("iterations", self.iterations.into()),
            ("response", self.response.copy()),
            ("asked", self.asked.copy()),
            ("usage", self.usage.copy()),
            ("arguments", self.arguments.copy()),
            ("found", self.found.copy()),
        ])
    }

    /// Reads what [`Progress::to_json`] wrote.
    pub fn from_json(json: &Json) -> Option<Self> {
        let part = |name: &str| json.get(name).map(|part| part.copy());
        let iterations = json.get("iterations")?.as_i64()?;
        Some(Self {
            next: Next::named(&json.text("next")?)?,
            body: part("body").filter(|body| body.as_object().is_some())?,
            model: part("model")?,
            said: part("said")?,
            iterations: usize::try_from(iterations).ok()?,
            response: part("response")?,
            asked: part("asked")?,
            usage: part("usage").into(),
            arguments: part("arguments")?,
            found: part("found").into(),
        })
    }

    /// The conversation so far, as the model's own filters begin with it.
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

    /// Adds a message that was said in this turn.
    pub fn say(&self, message: Json) -> Result<(), Fault> {
        for list in [&self.messages(), &self.said] {
            let Json::Array(list) = list else { continue };
            list.push(message.clone())
                .map_err(|error| Fault::Host(format!("failed to keep a message: {error}")))?;
        }
        Ok(())
    }

    /// Adds the tools of a search's result to those that the model is offered from now on.
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

    /// The latest answer is not the last one: its usage is a part of the turn's.
    pub(super) fn add_usage(&mut self) {
        self.usage = response::add_usage(&self.usage, &self.response.field("usage"));
    }

    /// Makes the usage of the last answer that of the turn, with its own beside it.
    pub(super) fn total_usage(&self) {
        if self.usage.is_null() {
            return;
        }
        let last = self.response.field("usage");
        if last.get(response::LAST_CALL).is_some() {
            return;
        }
        let total = response::add_usage(&self.usage, &last);
        // Copies, in an object just made.
        total.edit(response::LAST_CALL, last.copy());
        self.response.edit("usage", total);
    }

    /// Returns `true` if the answer has to be in a form, as JSON has one: no other text may stand beside it.
    pub(super) fn has_form(&self) -> bool {
        let kind = self.body.at_path("response_format.type");
        kind.as_str().is_some_and(|kind| kind.starts_with("json"))
    }

    /// The answer as a client reads it: the texts of all model calls of the turn, one after the other.
    pub fn answer(&self) -> Json {
        if self.said.is_empty() || self.has_form() {
            return self.response.clone();
        }
        let is_said = |message: &Json| is_role(message, "assistant");
        let texts = self.said.items().into_iter().filter(is_said).map(|said| message::text_of(&said));
        let mut texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
        if texts.is_empty() || self.response.at_path("choices.0").is_null() {
            return self.response.clone();
        }
        let answer = self.response.copy();
        let said = response::message_of(&answer);
        let own = message::text_of(&said);
        if !own.is_empty() {
            // Citations and signatures are those of its own text.
            let earlier = texts.join(response::TEXT_BREAK) + response::TEXT_BREAK;
            anthropic::remember_before(&said, &earlier);
            texts.push(own);
        }
        message::set_text(&said, &texts.join(response::TEXT_BREAK));
        answer
    }

    /// The calls of the latest answer that have no result yet.
    pub fn open_calls(&self) -> Vec<ModelCall> {
        open_calls(&self.messages().items())
    }
}

/// The calls of the last message that calls, without those that are answered after it.
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

/// Keeps a turn so that it can go on elsewhere.
pub trait Journal: Send + Sync {
    /// A step is done; the next begins when this is kept.
    fn keep<'a>(&'a self, progress: &'a Progress, turn: &'a Turn) -> BoxFuture<'a, Result<(), Fault>>;

    /// The turn stops for a person. What is kept of it is how it stood before this step; the answer is what
    /// a client reads in the place of the model's.
    fn pause<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<Json, Fault>>;

    /// A tool is about to run with these arguments, after every filter before it.
    fn starting<'a>(
        &'a self,
        call: &'a ModelCall,
        arguments: &'a Json,
        progress: &'a Progress,
        turn: &'a Turn,
    ) -> BoxFuture<'a, Result<(), Fault>>;
}
