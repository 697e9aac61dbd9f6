//! Scripts: what a file is, how it loads and how it runs.
//!
//! A file becomes a [`Script`]: it is read, checked and compiled with its valves folded in, on its own engine. A
//! [`Script`] with hooks becomes a [`valvehouse_core::filter::Filter`], one with handlers
//! [`valvehouse_core::tool::Tool`]s, and one that listens to agents [`ScriptCallbacks`].

#![warn(clippy::missing_errors_doc)]

mod action;
mod afterwards;
mod argument;
mod callbacks;
mod guard_claim;
mod compile;
mod warnings;
mod embed;
mod final_statement;
mod filter;
mod grants;
mod hooks;
mod imports;
mod link;
mod lint;
mod loader;
mod manifest;
mod misnamed;
mod names;
mod periodic;
mod pipe;
pub mod diagnostic;
mod repl;
mod run;
mod sandbox;
mod schedule;
mod script;
mod settings;
mod shadow;
mod source;
mod sources;
mod tool;
mod watch;
mod windows;

#[cfg(test)]
mod tests;

pub use action::{Button, ScriptAction};
pub use argument::UserValves;
pub use callbacks::ScriptCallbacks;
pub use compile::declared_valves;
pub use diagnostic::{Code, Diagnostic, Severity};
pub use embed::{BuilderScripts, NotLoaded, ScriptFolder, filter};
pub use guard_claim::frontmatter;
pub use imports::{Imports, MAX_SOURCE, imported_by, is_module};
pub use loader::{
    FolderScan, LoadedFile, Loader, SourceSet, beginning, is_id, read_file, read_tests, read_text,
    script_of_tests, tests_of_script,
};
pub use manifest::{CHAT, ENDPOINTS, Manifest, claims_of};
pub use pipe::{Offer, Pipe, Pipes};
pub use repl::{LineResult, Repl};
pub use sandbox::{Sandbox, SandboxRun, SandboxScript, TestOutside};
pub use schedule::{Lists, ScheduledCall};
pub use script::Script;
pub use settings::Settings;
pub use source::{Kind, SourceFile};
pub use tool::{Role, ScriptedTool, ServedTool, run_script};
pub use watch::Watch;

/// Unit tests have the same memory limits as the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
