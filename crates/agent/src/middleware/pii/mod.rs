//! The `pii` middleware, which removes personal data such as addresses and numbers from model input.
//!
//! The filters run before a model call at priority -2000, so that neither the model nor the writer of summaries
//! receives the data, and before and after a tool call at 9000, on the final arguments and results. They fail
//! closed: a value that cannot be searched is rejected.

mod filters;
mod find;
mod redact;

pub(super) use filters::{NAME, middleware};
