//! The declarations of a file: its opening comment, its constants, its functions and what they may reach.

pub(crate) mod grants;
pub(crate) mod guard_claim;
pub(crate) mod hooks;
pub(crate) mod manifest;
pub(crate) mod schedule;
