//! Rhai's standard packages, with wrappers that measure functions whose work the engine does not limit.
//!
//! The interpreter checks budgets between operations, never within a native. A native of Rhai that builds a text,
//! copies or compares is therefore called through a wrapper that measures its arguments first: the expected work is
//! charged as operations, the expected memory is reserved, and a call that would exceed a limit is rejected. `cost`
//! declares the cost of each function; a test fails for a function without a declaration.

mod comparison;
mod cost;
mod measure;
mod wrappers;
mod sorting;
mod text;

#[cfg(test)]
mod tests;

pub use comparison::{compared, kind_of};
pub use text::shortened_text;
pub(crate) use wrappers::{check_size, metered, packages};
