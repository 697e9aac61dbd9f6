//! What a turn tells of itself while it runs, for whoever watches it.

use std::time::Duration;
use valvehouse_json::Json;

/// Something that happened, told once and in order. The values are live: copy what is kept.
#[derive(Debug, Clone)]
pub enum Notice {
    /// A model is about to be asked, with these messages.
    LlmStart {
        /// As the model gets them.
        messages: Json,
    },
    /// A piece of its text, as the filters leave it.
    LlmToken {
        /// The text.
        text: String,
    },
    /// It answered: a `chat.completion`, as the filters leave it.
    LlmEnd {
        /// The answer.
        response: Json,
    },
    /// It did not, or a filter around it failed.
    LlmError {
        /// The reason.
        message: String,
    },
    /// A tool that the model called is next.
    ToolStart {
        /// The call.
        call: ToolCalled,
    },
    /// Its result, as the model will read it.
    ToolEnd {
        /// The call.
        call: ToolCalled,
        /// The text of the tool's message.
        result: String,
    },
    /// It failed, or a filter around it refused.
    ToolError {
        /// The call.
        call: ToolCalled,
        /// The reason.
        message: String,
    },
    /// A model or a tool is tried again after a failure.
    Retry {
        /// `provider mock` or `tool weather`.
        what: String,
        /// The number of this further try, from 1.
        attempt: u32,
        /// The most further tries.
        most: u32,
        /// The failure.
        error: String,
        /// The pause before it.
        delay: Duration,
    },
    /// A plugin emitted an event.
    Emitted {
        /// `{type, data}`.
        event: Json,
    },
}

/// A model's call of a tool.
#[derive(Debug, Clone)]
pub struct ToolCalled {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: Json,
    /// The tool's tags; none where there is no such tool.
    pub tags: Vec<String>,
}

/// Whoever watches a turn. It is called where things happen, so it must not take long.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn notice(&self, notice: Notice);
}
