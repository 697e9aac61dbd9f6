//! Rhai's standard packages with a meter in front of every function whose work is not bounded by the engine itself.
//!
//! The interpreter looks at budgets between operations, never within a native. A native of Rhai's that builds a text,
//! copies or compares is therefore called through a wrapper that measures its arguments first: what it would touch is
//! charged as operations, what it would allocate is reserved, and what would exceed a limit is refused before it is
//! built. Which function costs what is declared in `cost`; a test fails for a function without a declaration.

mod cost;
mod measure;
mod metered;
mod sorting;
mod text;

#[cfg(test)]
mod tests;

pub(super) use metered::{check_size, metered, packages};
pub(super) use text::shortened_text;
