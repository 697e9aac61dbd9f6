//! Edits that fix a problem, where its message leaves no choice between several.
//!
//! Editors offer them beside a problem. A problem whose fix depends on what the author meant has none.

mod edit;
mod foreign;
mod lookup;
mod meaning;

#[cfg(test)]
mod tests;

pub use edit::{Fix, FixEdit};
pub use lookup::fix;
