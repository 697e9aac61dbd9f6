//! Lanes: a few threads for work that waits or computes for long, each piece on its own stack.
//!
//! Such work is written as blocking code. When it waits, its stack is suspended and its lane runs another
//! piece, so thousands can wait at once without a thread each. A piece stays on the lane on which it started,
//! so the values it holds never change threads. Dropping the future returned by [`run`] ends the work: its next
//! wait or yield returns an error.
//!
//! A lane whose work runs for [`max_stuck`] without yielding is abandoned with its thread and replaced by
//! another lane. Other work waiting on that lane ends as well, because a stack cannot change threads.
//! Therefore, a lane runs the work of one owner at a time, and is free for other owners when that work has
//! ended.

mod separate_stack;
mod error;
mod health;
mod lane;
mod stackful;
mod together;
mod work;

#[cfg(test)]
mod tests;

pub use error::{AbandonedWork, ExecutorError, STUCK};
pub use health::{Workload, lost_now, lost_so_far, max_stuck, set_max_stuck};
pub use separate_stack::{abandon, run_apart};
pub use stackful::{STACK, WaitEnd, is_here, wait, yield_now};
pub use together::{Job, TogetherError, together};
pub use work::{CARRIED, run, run_for};
