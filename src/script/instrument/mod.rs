//! Functions of a script with the host's own steps in them: where the interpreter would touch a value without a look
//! at its size, where variables begin to be shared, and, for coverage, before each statement.
//!
//! Rhai gives nobody the body of a parsed function to change. A function that needs a step becomes one that runs a
//! changed copy of its body, kept beside; all others stay as they are.

mod captured;
mod functions;
mod rewrite;

#[cfg(test)]
mod tests;

pub(super) use captured::Captured;
pub(super) use functions::Instrumented;
