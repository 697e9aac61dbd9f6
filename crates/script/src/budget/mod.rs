//! The limits of one call of a script, and the clock that ends it.
//!
//! Rhai's own limits leak: operations restart within callbacks, nothing bounds time. Here one
//! `on_progress` per engine reads thread-locals that a guard sets around each call, so that every
//! operation counts, whoever started it.
//!
//! Own running time is without what a thread had to wait for a processor: on a busy machine a call may
//! stand still for longer than it may run. A quarter of the time passes by the wall clock, which costs
//! nothing to read; who needs more than that is asked what it really used.

mod branches;
mod enforcement;
mod limits;
mod meter;
mod processor;
mod wait;

pub(crate) use branches::together;
pub(crate) use enforcement::{abandoned, limit};
pub use limits::Budget;
pub(crate) use limits::{ExceededLimit, ended};
pub(crate) use meter::{
    Guard, WALK, called, charge, check_end, doom, foresee, foresee_time, forgive, reserve, spend, time_limit,
};
pub(crate) use processor::processor_time;
pub(crate) use wait::{wait, wait_for_person};
