//! The results and errors of scripts, and their texts.

mod hook_answer;
mod summary;
mod thrown;

pub use hook_answer::{HookAnswer, all_returned};
pub(crate) use hook_answer::{from_catch, own_throw, register};
pub(crate) use summary::without_place;
pub use summary::{lower_first, message_of, operands, summary_of_run};
pub(crate) use thrown::{MAX_MESSAGE, readable};
pub use thrown::{Operand, ThrownError};
