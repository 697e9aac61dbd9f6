//! The moments at which an agent tells of itself, by the names that callbacks have in scripts and in Rust.

use crate::context::Turn;
use futures_util::future::BoxFuture;
use valvehouse_json::Json;

/// A moment of an agent's run. The agent's callbacks say what is told at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Callback {
    /// A run begins.
    ChainStart,
    /// It has its answer.
    ChainEnd,
    /// It failed.
    ChainError,
    /// A model is asked.
    LlmStart,
    /// It answered.
    LlmEnd,
    /// It did not.
    LlmError,
    /// A piece of its text.
    LlmNewToken,
    /// An answer with text in it.
    Text,
    /// An answer that calls tools.
    AgentAction,
    /// The final answer.
    AgentFinish,
    /// A tool is next.
    ToolStart,
    /// Its result.
    ToolEnd,
    /// It failed.
    ToolError,
    /// Something is tried again.
    Retry,
    /// A plugin's event.
    CustomEvent,
    /// A tool that looks something up is next.
    RetrieverStart,
    /// The documents that it found.
    RetrieverEnd,
    /// It failed.
    RetrieverError,
    /// A turn begins.
    TurnStart,
    /// It has its answer.
    TurnEnd,
    /// It failed.
    TurnError,
    /// The request to a model, behind all other filters.
    LlmCall,
    /// The arguments of a tool, behind all other filters.
    ToolCall,
    /// A piece of a model's text.
    Token,
    /// The run stops for a person.
    Interrupt,
    /// It goes on.
    Resume,
}

impl Callback {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::ChainStart,
        Self::ChainEnd,
        Self::ChainError,
        Self::LlmStart,
        Self::LlmEnd,
        Self::LlmError,
        Self::LlmNewToken,
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
        Self::TurnStart,
        Self::TurnEnd,
        Self::TurnError,
        Self::LlmCall,
        Self::ToolCall,
        Self::Token,
        Self::Interrupt,
        Self::Resume,
    ];

    /// The name of its function in a script.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChainStart => "on_chain_start",
            Self::ChainEnd => "on_chain_end",
            Self::ChainError => "on_chain_error",
            Self::LlmStart => "on_llm_start",
            Self::LlmEnd => "on_llm_end",
            Self::LlmError => "on_llm_error",
            Self::LlmNewToken => "on_llm_new_token",
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
            Self::TurnStart => "on_turn_start",
            Self::TurnEnd => "on_turn_end",
            Self::TurnError => "on_turn_error",
            Self::LlmCall => "on_llm_call",
            Self::ToolCall => "on_tool_call",
            Self::Token => "on_token",
            Self::Interrupt => "on_interrupt",
            Self::Resume => "on_resume",
        }
    }

    /// The moment of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|callback| callback.name() == name)
    }
}

impl std::fmt::Display for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Somebody who is told by and by what happened in a run.
pub trait Listener: Send + Sync {
    /// The name: a script's id.
    fn name(&self) -> &str;

    /// Returns `true` if it wants to be told of this moment.
    fn hears(&self, callback: Callback) -> bool;

    /// It is told. `event` is its own; `state` is its scratch map of the run; the turn is beside that of the
    /// run, which may be over already.
    fn hear(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> BoxFuture<'_, Result<(), String>>;
}
