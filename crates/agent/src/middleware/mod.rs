//! Middleware: ready-made filters, and wrappers of models and tools, that hold an agent to its limits.
//!
//! A middleware is not a mechanism of its own: its filters run in the chain of all others, each at a place
//! that its file names. Options are read once, in full; what cannot be read is an error, so that no agent
//! runs without a guard that was meant for it.
//!
//! ```
//! use valvehouse_agent::middleware::{Middleware, Parts};
//! use valvehouse_json::Json;
//! let options = Json::parse(br#"{"max_model_calls": 5}"#).unwrap();
//! let limit = Middleware::of("call_limit", &options, &Parts::default()).unwrap();
//! assert_eq!(limit.filters().len(), 2);
//! ```

mod approval;
mod call_limit;
mod catalog;
mod context_editing;
mod definition;
mod models;
pub(crate) mod options;
mod pii;
mod tool_retry;
pub(crate) mod wait;

pub use definition::{Middleware, NeedsApproval, Parts};

#[cfg(test)]
mod tests;
