//! Structured output: if a model's JSON does not match the schema, it is asked again with the error.
//!
//! What is checked has to be whole: nothing of the answer is there before all of it is. Tool calls and
//! refusals are not answers in that form and pass as they are.

mod provider;

pub use provider::FormattedProvider;

#[cfg(test)]
mod tests;
