//! Middleware: predefined filters, and wrappers of models and tools.
//!
//! The filters of a middleware run in the usual chain, with the priority documented in its file. All options
//! are checked at once; an invalid option is an error, so that no agent runs without an intended guard.
//!
//! ```
//! use valvehouse_agent::middleware::{CallLimit, Middleware, Parts};
//! let limit = CallLimit { max_model_calls: 5, ..CallLimit::default() };
//! let limit = Middleware::new(limit, &Parts::default()).unwrap();
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
mod typed;
pub(crate) mod wait;

pub use crate::summary::Summarization;
pub use definition::{Middleware, NeedsApproval, Parts};
pub use typed::{
    CallLimit, ContextEditing, HumanApproval, MiddlewareSettings, ModelFallback, ModelRetry, OnLimit, Pii,
    PiiStrategy, ToolRetry,
};

#[cfg(test)]
mod tests;
