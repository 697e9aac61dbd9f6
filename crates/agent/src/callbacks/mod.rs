//! Callbacks, which report the events of an agent's run without affecting it.
//!
//! A Rust closure is called directly. The callbacks of scripts are queued and run concurrently with the run. A
//! failure is logged and changes nothing.
//!
//! Each event is an object `{event, …, agent_id, agent_name, run_id, timestamp}`, with the time in milliseconds
//! since 1970. The callbacks in the order of a run, with those of a model call repeated for each call:
//!
//! | callback | when | fields |
//! |---|---|---|
//! | `on_turn_start` | a run starts | `input` |
//! | `on_llm_start` | a model call starts | `messages` |
//! | `on_llm_call` | the request has passed all other filters (priority 9999) | `messages`, `model` |
//! | `on_token` | the model streams a chunk of text | `token` |
//! | `on_llm_end` | the model call returns | `response` |
//! | `on_llm_error` | the model call fails | `error` |
//! | `on_text` | the answer has text | `text` |
//! | `on_agent_action` | the answer has tool calls | `text`, `tool_calls` |
//! | `on_agent_finish` | the answer is the final one (once per run) | `text` |
//! | `on_tool_start` | a tool call starts, even for an unknown tool | `tool`, `args`, `tool_call_id` |
//! | `on_retriever_start` | a call of a tool tagged `retriever` starts | `tool`, `args`, `tool_call_id` |
//! | `on_tool_call` | the call has passed all other filters (priority 9999) | `tool`, `args` |
//! | `on_tool_end`, `on_retriever_end` | the tool returns; `result` is the text for the model | `tool`, `args`, `tool_call_id`, `result` |
//! | `on_tool_error`, `on_retriever_error` | the tool fails | `tool`, `args`, `tool_call_id`, `error` |
//! | `on_turn_end` | the run has its answer | `result` |
//! | `on_turn_error` | the run fails | `error` |
//!
//! Four of them have a second name, which LangChain uses: `on_chain_start`, `on_chain_end`, `on_chain_error` and
//! `on_llm_new_token`. `event` is the first name; a script's function receives its own name.
//!
//! These callbacks can occur at any time:
//!
//! | callback | when | fields |
//! |---|---|---|
//! | `on_retry` | a model or tool call is retried | `what`, `attempt`, `max_retries`, `error`, `delay` (in milliseconds) |
//! | `on_custom_event` | a plugin emits an event | `name`, `data` |
//! | `on_interrupt` | the run pauses for a person | `pending` |
//! | `on_resume` | a paused run resumes, possibly in another process | `decision` |

mod event;
mod handlers;
mod notifier;
#[cfg(test)]
mod tests;

pub use event::{CallbackEvent, Who};
pub use handlers::{CallbackResult, Callbacks};
pub use notifier::Notifier;
pub use valvehouse_core::callback::{Callback, Listener};
