//! Reports valid code that is wrong: what certainly fails when it runs, which prevents a file from loading, and what is
//! probably wrong, which are warnings of `check`, of editors and during development.
//!
//! A false warning is worse than none, so each rule reports only what is certain.

mod answers;
mod calls;
mod capabilities;
mod comparisons;
mod escapes;
mod in_place;
mod list;
mod unused_value;
mod findings;
mod flow;
mod fractions;
mod loops;
mod lost_change;
mod quotes;
mod rule;
mod signs;
mod returns;
mod tree;
mod valves;
mod properties;

pub(crate) use calls::failures;
pub(crate) use list::at_load;
pub(crate) use properties::misspelt_once;
pub(crate) use tree::{ModuleFunctions, public_functions};
