//! Functions of a script with the host's own steps in them: where the interpreter would touch a value without a look
//! at its size, where variables begin to be shared, where an operator's operands may have kinds that Rhai answers
//! silently for, and, for coverage, before each statement.
//!
//! Rhai gives nobody the body of a parsed function to change. A function that needs a step becomes one that runs a
//! changed copy of its body, kept beside; all others stay as they are.

mod functions;
mod kinds;
mod operators;
mod rewrite;

#[cfg(test)]
mod mixes;
#[cfg(test)]
mod tests;

pub(super) use functions::InstrumentedBodies;
pub(super) use kinds::{Kinds, ValueKind};
pub(super) use operators::keep_unordered;
