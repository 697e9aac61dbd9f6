//! Reloading: builds the next snapshot from the folders and the store, with one writer at a time.
//!
//! Every scan compares the contents of the folders, so a lost event of the file system only causes a delay.
//! Nothing is removed before its replacement has loaded.

pub(crate) mod removed_plugin;
pub(crate) mod clock;
pub(crate) mod compiler;
mod guards;
mod last_good;
mod life;
pub(crate) mod scan;
mod parallel;
mod plugins;
mod record;
mod rows;
mod scheduled;
pub(crate) mod scripts;
pub(crate) mod state;
mod store;
mod staged_generation;
