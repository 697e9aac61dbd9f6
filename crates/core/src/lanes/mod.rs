//! Lanes: a few threads for work that waits or takes its time, each piece on a stack of its own.
//!
//! Such work is written as if it could block. When it waits, its stack is put aside and its lane goes
//! on with another piece: thousands can wait at once without a thread each. A piece stays on the lane
//! it began on, so that nothing it holds ever changes threads. Whoever drops what [`run`] returned
//! ends the work: the next time it would wait or give way it is told to stop.
//!
//! A lane whose work computes for [`max_stuck`] without giving way is left behind with its thread, and another lane takes
//! its place. What had begun there and waits ends with it: a stack cannot change threads. So a lane takes the work of one
//! owner at a time, and is free for another's when that has ended.

mod apart;
mod error;
mod health;
mod lane;
mod stackful;
mod together;
mod work;

#[cfg(test)]
mod tests;

pub use apart::{abandon, run_apart};
pub use error::{AbandonedWork, LaneError, STUCK};
pub use health::{Pace, lost_now, lost_so_far, max_stuck, set_max_stuck};
pub use stackful::{STACK, WaitEnd, give_way, is_here, wait};
pub use together::{Job, TogetherError, together};
pub use work::{run, run_for};
