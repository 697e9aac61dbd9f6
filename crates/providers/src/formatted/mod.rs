//! Answers in the form that was asked for: a model whose JSON does not fit is told why and asked again.
//!
//! What is checked has to be whole: nothing of the answer is there before all of it is. Tool calls and
//! refusals are not answers in that form and pass as they are.

mod provider;

pub use provider::FormattedProvider;

#[cfg(test)]
mod tests;
