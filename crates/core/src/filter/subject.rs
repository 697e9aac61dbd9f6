//! The subject of a hook.

use crate::context::{Context, Turn};
use valvehouse_json::{Json, MisplacedValue};

/// The value a hook looks at, and the turn it belongs to.
///
/// The value is live: the request body for `inlet`, the conversation for `outlet`, one event for
/// `stream`; for the others an object with the fields that the methods here name.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// The value that is looked at.
    pub value: Json,
    /// The turn in which it happens.
    pub turn: Turn,
}

impl FilterContext {
    /// A value in its turn.
    pub fn new(value: Json, turn: &Turn) -> Self {
        Self { value, turn: turn.clone() }
    }

    /// The messages of this model call (`pre_chat`, `post_chat`), or of the body.
    pub fn messages(&self) -> Json {
        self.field("messages")
    }

    /// The same with other messages.
    pub fn with_messages(self, messages: impl Into<Json>) -> Self {
        self.with("messages", messages)
    }

    /// The tool that is called, as its spec.
    pub fn tool(&self) -> Json {
        self.field("tool")
    }

    /// The arguments it is called with.
    pub fn args(&self) -> Json {
        self.field("args")
    }

    /// The same with other arguments.
    pub fn with_args(self, args: impl Into<Json>) -> Self {
        self.with("args", args)
    }

    /// The answer of the tool or the model.
    pub fn result(&self) -> Json {
        self.field("result")
    }

    /// The same with another result.
    pub fn with_result(self, result: impl Into<Json>) -> Self {
        self.with("result", result)
    }

    /// The reason for which the tool failed, for those who asked to see failures.
    pub fn error(&self) -> Json {
        self.field("error")
    }

    /// The variables that travel along the turn.
    pub fn context(&self) -> &Context {
        self.turn.context()
    }

    /// The one live map of this turn, shared by all hooks.
    pub fn metadata(&self) -> &Json {
        self.turn.metadata()
    }

    fn field(&self, name: &str) -> Json {
        self.value.field(name)
    }

    fn with(self, name: &str, value: impl Into<Json>) -> Self {
        match self.value.set(name, value) {
            Ok(()) => {}
            // A hook gave back something that holds its own context: keep what there was.
            Err(MisplacedValue::Cycle | MisplacedValue::TooDeep) => {
                tracing::warn!(field = name, "ignored a value that cannot stand there");
            }
            Err(_) => {}
        }
        self
    }
}
