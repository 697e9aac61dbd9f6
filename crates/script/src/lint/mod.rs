//! Reports valid code that is probably wrong: warnings of `check`, of editors and during development. A host that
//! only loads a script does not need them.
//!
//! A false warning is worse than none, so each lint reports only what is certain.

mod answers;
mod calls;
mod capabilities;
mod comparisons;
mod unused_value;
mod findings;
mod flow;
mod loops;
mod quotes;
mod returns;
mod tree;
mod valves;
mod properties;

pub(crate) use properties::misspelt_once;
