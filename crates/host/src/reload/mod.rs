//! Builds the next snapshot from the folders and the store. One writer at a time.
//!
//! Every tick reads the folder afresh and compares content: a lost event costs a delay, never a
//! wrong state. Nothing is taken away before what takes its place has loaded.

pub(crate) mod aside;
pub(crate) mod compiler;
mod guards;
mod last_good;
pub(crate) mod look;
mod parallel;
mod plugins;
mod record;
mod rows;
pub(crate) mod scripts;
pub(crate) mod state;
mod store;
mod staged_generation;
