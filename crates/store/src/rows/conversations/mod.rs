//! The rows of conversations. Writes wait for the disk.

pub(crate) mod checkpoints;
pub(crate) mod messages;
mod process;
pub(super) mod rows;
pub(crate) mod runs;
pub(crate) mod transfer;
