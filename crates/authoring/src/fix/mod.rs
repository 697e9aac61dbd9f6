//! Edits that fix a problem, if its message leaves only one choice.
//!
//! Editors offer them next to the problem. A problem whose fix depends on the author's intention has none.

mod foreign;
mod semantics;

#[cfg(test)]
mod tests;

pub use semantics::fix;
