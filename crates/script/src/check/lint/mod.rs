//! Reports valid code that is wrong: what certainly fails when it runs, which prevents a file from loading, and what is
//! probably wrong, which are warnings of `check`, of editors and during development.
//!
//! A false warning is worse than none, so each rule reports only what is certain.

mod answers;
mod calls;
mod capabilities;
mod comparisons;
mod escapes;
mod findings;
mod flow;
mod fractions;
mod in_place;
mod list;
mod loops;
mod lost_change;
mod properties;
mod quotes;
mod returns;
mod rule;
mod signs;
mod tree;
mod unused_value;
mod valves;

pub(crate) use calls::failures;
pub(crate) use list::at_load;
pub(crate) use properties::misspelt_once;
pub(crate) use tree::{ModuleFunctions, public_functions};
