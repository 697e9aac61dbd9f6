//! The events of an agent's run for which plugins and Rust code can register callbacks.

use crate::context::Turn;
use crate::error::BoxError;
use futures_util::future::BoxFuture;
use valvehouse_json::Json;

/// An event of an agent's run. The agent's documentation lists the data that each callback receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Callback {
    /// A turn starts.
    TurnStart,
    /// A turn returns its answer.
    TurnEnd,
    /// A turn fails.
    TurnError,
    /// A model is called.
    LlmStart,
    /// A model call returns.
    LlmEnd,
    /// A model call fails.
    LlmError,
    /// A model streams a chunk of text.
    Token,
    /// A model returns text.
    Text,
    /// A model returns tool calls.
    AgentAction,
    /// The model returns the final answer.
    AgentFinish,
    /// A tool is called.
    ToolStart,
    /// A tool call returns.
    ToolEnd,
    /// A tool call fails.
    ToolError,
    /// A model or tool call is retried.
    Retry,
    /// A plugin emits an event.
    CustomEvent,
    /// A retriever, a tool that looks up documents, is called.
    RetrieverStart,
    /// A retriever returns its documents.
    RetrieverEnd,
    /// A retriever call fails.
    RetrieverError,
    /// A request is sent to a model, after all other filters.
    LlmCall,
    /// A tool is called, after all other filters have changed its arguments.
    ToolCall,
    /// The run pauses until a person answers.
    Interrupt,
    /// A paused run continues.
    Resume,
}

impl Callback {
    /// All callbacks.
    pub const ALL: [Self; 22] = [
        Self::TurnStart,
        Self::TurnEnd,
        Self::TurnError,
        Self::LlmStart,
        Self::LlmEnd,
        Self::LlmError,
        Self::Token,
        Self::Text,
        Self::AgentAction,
        Self::AgentFinish,
        Self::ToolStart,
        Self::ToolEnd,
        Self::ToolError,
        Self::Retry,
        Self::CustomEvent,
        Self::RetrieverStart,
        Self::RetrieverEnd,
        Self::RetrieverError,
        Self::LlmCall,
        Self::ToolCall,
        Self::Interrupt,
        Self::Resume,
    ];

    /// The second names of callbacks, which LangChain gives them.
    pub const SECOND_NAMES: [(&'static str, Self); 4] = [
        ("on_chain_start", Self::TurnStart),
        ("on_chain_end", Self::TurnEnd),
        ("on_chain_error", Self::TurnError),
        ("on_llm_new_token", Self::Token),
    ];

    /// Returns the first name of the callback.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TurnStart => "on_turn_start",
            Self::TurnEnd => "on_turn_end",
            Self::TurnError => "on_turn_error",
            Self::LlmStart => "on_llm_start",
            Self::LlmEnd => "on_llm_end",
            Self::LlmError => "on_llm_error",
            Self::Token => "on_token",
            Self::Text => "on_text",
            Self::AgentAction => "on_agent_action",
            Self::AgentFinish => "on_agent_finish",
            Self::ToolStart => "on_tool_start",
            Self::ToolEnd => "on_tool_end",
            Self::ToolError => "on_tool_error",
            Self::Retry => "on_retry",
            Self::CustomEvent => "on_custom_event",
            Self::RetrieverStart => "on_retriever_start",
            Self::RetrieverEnd => "on_retriever_end",
            Self::RetrieverError => "on_retriever_error",
            Self::LlmCall => "on_llm_call",
            Self::ToolCall => "on_tool_call",
            Self::Interrupt => "on_interrupt",
            Self::Resume => "on_resume",
        }
    }

    /// Returns each name with its callback, the first names before the second ones.
    pub fn names() -> impl Iterator<Item = (&'static str, Self)> {
        Self::ALL.into_iter().map(|callback| (callback.name(), callback)).chain(Self::SECOND_NAMES)
    }

    /// Returns the callback of a first or second name, `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::names().find(|(known, _)| *known == name).map(|(_, callback)| callback)
    }
}

impl std::fmt::Display for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A receiver of an agent's callbacks.
pub trait Listener: Send + Sync {
    /// Returns the name of the listener: a script's id.
    fn name(&self) -> &str;

    /// Returns `true` if the listener handles this callback.
    fn handles(&self, callback: Callback) -> bool;

    /// Handles a callback. `event` is a copy for this listener, whose field `event` is the first name; `state` is its scratch map for the run. `turn`
    /// is separate from the turn of the run, which may be over.
    ///
    /// # Errors
    /// Returns any error, which is logged; the run continues.
    fn on_event(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> BoxFuture<'_, Result<(), BoxError>>;
}
