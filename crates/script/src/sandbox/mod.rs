//! Runs of scripts with something replaced: their text, valves, clock, stored values, hosts, models, files and
//! programs.
//!
//! Tests, `run`, `repl`, `dev` and replays of traces use one [`Sandbox`], so that a dry run means the same in all of
//! them, and call the script through one [`SandboxScript`].

#[expect(clippy::module_inception, reason = "a sandbox is what this folder is about")]
mod sandbox;
mod script;

pub use sandbox::Sandbox;
pub(crate) use sandbox::TestOutside;
pub use script::{SandboxRun, SandboxScript};
