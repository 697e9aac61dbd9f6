//! Callbacks: an agent tells whoever wants to know what it does, and nobody can hold it up by listening.
//!
//! A closure in Rust is called where things happen. A script's callback waits in line and runs beside the
//! run. One that fails is named in the log and changes nothing.
//!
//! Each tells `{event, …, agent_id, agent_name, run_id, timestamp}`, with the time in milliseconds. In the
//! order of a run, those of a round as often as there are rounds:
//!
//! | callback | when | tells | seed |
//! |---|---|---|---|
//! | `on_chain_start`, `on_turn_start` | a run begins | `input` | S2, S0 |
//! | `on_llm_start` | a model is asked | `messages` | S2 |
//! | `on_llm_call` | with what, behind all other filters (priority 9999) | `messages`, `model` | S0 |
//! | `on_llm_new_token`, `on_token` | a piece of its text | `token` | S2, S0 |
//! | `on_llm_end` | it answered | `response` | S2 |
//! | `on_llm_error` | instead: it did not | `error` | S2 |
//! | `on_text` | the answer has text | `text` | S2 |
//! | `on_agent_action` | the answer calls tools | `text`, `tool_calls` | S2 |
//! | `on_agent_finish` | instead: it is the final one, told once | `text` | S2 |
//! | `on_tool_start` | a tool is next, also one that does not exist | `tool`, `args`, `tool_call_id` | S2 |
//! | `on_retriever_start` | the same, of tools tagged `retriever` | as above | S2 |
//! | `on_tool_call` | with what, behind all other filters (priority 9999) | `tool`, `args` | S0 |
//! | `on_tool_end`, `on_retriever_end` | its result, as the model reads it | `tool`, `args`, `tool_call_id`, `result` | S2 |
//! | `on_tool_error`, `on_retriever_error` | instead: why there is none | `tool`, `args`, `tool_call_id`, `error` | S2 |
//! | `on_turn_end`, `on_chain_end` | the run has its answer | `result` | S0, S2 |
//! | `on_turn_error`, `on_chain_error` | instead: it failed | `error` | S0, S2 |
//!
//! And whenever it happens:
//!
//! | callback | when | tells | seed |
//! |---|---|---|---|
//! | `on_retry` | a model or a tool is tried again | `what`, `attempt`, `max_retries`, `error`, `delay` (ms) | S2 |
//! | `on_custom_event` | a plugin emits an event | `name`, `data` | S2 |
//! | `on_interrupt` | the run stops for a person | `pending` | S0 |
//! | `on_resume` | it goes on, perhaps elsewhere | `decision` | S0 |

mod event;
mod handlers;
mod teller;
#[cfg(test)]
mod tests;

pub use event::{CallbackEvent, Who};
pub use handlers::{CallbackResult, Callbacks};
pub use teller::Teller;
pub use valvehouse_core::callback::{Callback, Listener};
