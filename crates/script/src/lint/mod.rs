//! Code that loads and is surely not meant: warnings of `check`, of editors and while one writes; a host that
//! only loads a script has no use for them.
//!
//! A lint that is wrong is worse than none: each of these warns only where it is sure.

mod answers;
mod calls;
mod capabilities;
mod comparisons;
mod dropped;
mod findings;
mod flow;
mod loops;
mod quotes;
mod returns;
mod tree;
mod valves;
mod properties;
