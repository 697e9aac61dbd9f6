//! Dry runs of scripts, with some of these replaced: text, valves, clock, stored values, hosts, models, files and
//! programs.
//!
//! Tests, `run`, `repl`, `dev` and replays of traces all use [`Sandbox`], so that a dry run means the same
//! everywhere, and call the script through [`SandboxScript`].

#[expect(clippy::module_inception, reason = "a sandbox is what this folder is about")]
mod sandbox;
mod script;

pub use sandbox::{Sandbox, TestOutside};
pub use script::{SandboxRun, SandboxScript};
