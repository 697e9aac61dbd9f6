//! The texts and syntax trees of scripts, as far as they are read before the interpreter runs them.

pub mod bounded_call;
pub mod folding;
pub mod literal;
mod parse_fault;
pub mod rename;
pub mod spans;
pub mod tokens;
mod tree;

pub use parse_fault::{ParseFault, Within};
pub use tree::{call_of, statements_of};
