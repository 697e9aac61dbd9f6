//! `pii`: what tells of persons (addresses, numbers) does not reach the model.
//!
//! Before a model call at -2000, so that neither the model nor who sums up for it sees any; before and
//! after a tool at 9000, when arguments and results are what others made of them. It fails closed: what
//! cannot be looked through goes nowhere.

mod filters;
mod find;
mod hide;

pub(super) use filters::{NAME, middleware};
