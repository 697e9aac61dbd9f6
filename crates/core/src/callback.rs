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

/// Passes the table of callbacks to a macro: their names in scripts, each with its callback and its documentation. The
/// first names are in the order of [`Callback`]; the last four are second names, which LangChain uses.
#[doc(hidden)]
#[macro_export]
macro_rules! callback_names {
    ($receiver:ident) => {
        $receiver! {
            on_turn_start TurnStart "A run starts: `input`.",
            on_turn_end TurnEnd "A run ended with an answer: `result`.",
            on_turn_error TurnError "A run failed: `error`.",
            on_llm_start LlmStart "A model call starts: `messages`.",
            on_llm_end LlmEnd "A model answered: `response`.",
            on_llm_error LlmError "A model call failed: `error`.",
            on_token Token "A chunk of a model's text: `token`.",
            on_text Text "An answer has text: `text`.",
            on_agent_action AgentAction "An answer calls tools: `text`, `tool_calls`.",
            on_agent_finish AgentFinish "An answer is final: `text`.",
            on_tool_start ToolStart "A tool call starts: `tool`, `args`, `tool_call_id`.",
            on_tool_end ToolEnd "A tool returned a result: `tool`, `args`, `tool_call_id`, `result`.",
            on_tool_error ToolError "A tool failed: `tool`, `args`, `tool_call_id`, `error`.",
            on_retry Retry "A model or tool call is retried: `what`, `attempt`, `max_retries`, `error`, `delay` (ms).",
            on_custom_event CustomEvent "A plugin emitted an event: `name`, `data`.",
            on_retriever_start RetrieverStart "A call of a tool tagged `retriever` starts: `tool`, `args`, `tool_call_id`.",
            on_retriever_end RetrieverEnd "A tool tagged `retriever` returned a result: `tool`, `args`, `tool_call_id`, `result`.",
            on_retriever_error RetrieverError "A tool tagged `retriever` failed: `tool`, `args`, `tool_call_id`, `error`.",
            on_llm_call LlmCall "The input of a model call, after all other filters: `messages`, `model`.",
            on_tool_call ToolCall "The arguments of a tool call, after all other filters: `tool`, `args`.",
            on_interrupt Interrupt "The run stops for a person: `pending`.",
            on_resume Resume "The run continues: `decision`.",
            on_chain_start TurnStart "Another name of `on_turn_start`; a file has one of both.",
            on_chain_end TurnEnd "Another name of `on_turn_end`; a file has one of both.",
            on_chain_error TurnError "Another name of `on_turn_error`; a file has one of both.",
            on_llm_new_token Token "Another name of `on_token`; a file has one of both.",
        }
    };
}

macro_rules! names {
    ($($name:ident $callback:ident $doc:literal,)*) => {
        /// The names of callbacks, with their documentation.
        const NAMES: &[(&str, Callback, &str)] = &[$((stringify!($name), Callback::$callback, $doc)),*];
    };
}

callback_names!(names);

impl Callback {
    /// All callbacks.
    pub const ALL: [Self; 22] = {
        let mut all = [Self::TurnStart; 22];
        let mut place = 0;
        while place < all.len() {
            all[place] = NAMES[place].1;
            // The first names are in the order of the callbacks.
            assert!(all[place] as usize == place);
            place += 1;
        }
        all
    };

    /// Returns the first name of the callback.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    /// Returns each name with its callback, the first names before the second ones.
    pub fn names() -> impl Iterator<Item = (&'static str, Self)> {
        NAMES.iter().map(|(name, callback, _)| (*name, *callback))
    }

    /// Returns each name with its documentation for authors of scripts.
    pub fn documented() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMES.iter().map(|(name, _, doc)| (*name, *doc))
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
