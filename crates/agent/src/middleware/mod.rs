//! Middleware: predefined filters, and wrappers of models and tools.
//!
//! The filters of a middleware run in the usual chain, with the priority documented in its file. All options
//! are checked at once; an invalid option is an error, so that no agent runs without an intended guard.
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
