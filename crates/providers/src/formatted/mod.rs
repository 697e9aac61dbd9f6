//! Structured output: if the JSON of a model does not match the requested schema, the request is retried with
//! the error.
//!
//! Only a complete answer can be checked. Tool calls and refusals pass unchanged.

mod provider;

pub use provider::FormattedProvider;

#[cfg(test)]
mod tests;
