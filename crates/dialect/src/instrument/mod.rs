//! Adds steps to a script's functions: where the interpreter would process a value without a check of its size,
//! where a method of texts is used as a value, where variables become shared, where a loop may go over a map, where Rhai silently accepts operands of different kinds, where it sorts the keys
//! of a map literal, where it ignores an assignment, where a condition may not be a boolean, where it fails because a
//! closure uses the variable that its chain starts with, and, for coverage, before each statement.
//!
//! Rhai does not allow a parsed function's body to be changed. A function that needs a step is replaced by one that
//! runs a changed copy of its body, which is stored separately; all other functions are unchanged.

mod chains;
mod coverage;
mod functions;
mod handled;
mod kinds;
mod literals;
mod loops;
mod operators;
mod places;
mod predicates;
mod rewrite;
mod slices;
mod switches;
mod truths;
mod values;
mod writes;

pub use coverage::Coverage;
pub(crate) use coverage::Lines;
pub use functions::InstrumentedBodies;
pub use kinds::{Kinds, KnownFunctions, OperandKind};
pub use literals::Literals;
pub use operators::keep_unordered;
pub use values::returns_text;
