//! Scripts: the only place that names Rhai.
//!
//! A file becomes a [`Script`]: read, checked and compiled with its valves folded in, on an engine
//! of its own. A [`Script`] with hooks becomes a [`crate::filter::Filter`].

mod answer;
mod budget;
mod call;
mod compile;
mod doubts;
mod engine;
mod filter;
mod hooks;
mod literal;
mod loader;
mod manifest;
mod names;
mod package;
mod problem;
mod tokens;
mod value;
mod watch;

#[cfg(test)]
mod tests;

pub use budget::Budget;
pub use compile::{Script, Settings, SourceFile};
pub use filter::UserValves;
pub use loader::{Found, Loader, Read, beginning, is_id, read_file};
pub use manifest::{Capability, Manifest, says_of_itself};
pub use problem::{Problem, Severity};
pub use watch::Watch;

use value::Shape;
