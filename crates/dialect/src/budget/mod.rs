//! The limits of one call of a script, and their enforcement.
//!
//! Rhai's own limits are incomplete: operations restart within callbacks, and nothing limits time. Here, one
//! `on_progress` per engine reads thread-locals that a guard sets around each call, so that every operation counts
//! toward the call.
//!
//! The running time excludes the time a thread waits for a processor: on a busy machine, a call may be preempted
//! for longer than it may run. A quarter of the limit is measured by the wall clock, which costs almost nothing to
//! read; after that, the thread's own time is read.

mod branches;
mod enforcement;
pub mod input_size;
mod limits;
mod meter;
mod processor;
mod wait;

pub use branches::together;
pub use enforcement::{abandoned, limit};
pub use limits::{Budget, ExceededLimit, ended};
pub use meter::{
    Guard, WALK, charge, charge_bytes, charge_work, check_end, doom, operation_limit, reserve, spend,
    time_limit,
};
pub(crate) use meter::{called, forgive};
pub use processor::processor_time;
pub use wait::{wait, wait_for_person};
