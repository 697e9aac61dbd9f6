//! The notices that an observer of a turn receives while it runs.

use std::time::Duration;
use valvehouse_json::Json;

/// A notice about a step of a turn, sent once and in order. The values are live: copy those that outlive the
/// call.
#[derive(Debug, Clone)]
pub enum Notice {
    /// A model call starts.
    LlmStart {
        /// The messages sent to the model.
        messages: Json,
    },
    /// The model streamed text, after all filters.
    LlmToken {
        /// The text.
        text: String,
    },
    /// A model call returned, after all filters.
    LlmEnd {
        /// The answer, a `chat.completion`.
        response: Json,
    },
    /// A model call or a filter around it failed.
    LlmError {
        /// The error message.
        message: String,
    },
    /// A tool call starts.
    ToolStart {
        /// The call.
        call: ToolCalled,
    },
    /// A tool call returned.
    ToolEnd {
        /// The call.
        call: ToolCalled,
        /// The content of the tool's message to the model.
        result: String,
    },
    /// A tool call failed or was refused by a filter.
    ToolError {
        /// The call.
        call: ToolCalled,
        /// The error message.
        message: String,
    },
    /// A failed model or tool call is retried.
    Retry {
        /// The target: `provider mock` or `tool weather`.
        what: String,
        /// The number of the retry, from 1.
        attempt: u32,
        /// The maximum number of retries.
        most: u32,
        /// The error that caused the retry.
        error: String,
        /// The delay before the retry.
        delay: Duration,
    },
    /// A plugin emitted an event.
    Emitted {
        /// The event, `{type, data}`.
        event: Json,
    },
}

/// A tool call by a model.
#[derive(Debug, Clone)]
pub struct ToolCalled {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: Json,
    /// The tool's tags; empty for an unknown tool.
    pub tags: Vec<String>,
}

/// An observer of a turn. It runs on the turn's own task, so it must return quickly.
pub trait Observer: Send + Sync {
    /// Handles a notice.
    fn notice(&self, notice: Notice);
}
