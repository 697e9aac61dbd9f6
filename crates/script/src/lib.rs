//! Scripts: what a file is, how it loads and how it runs.
//!
//! A file becomes a [`Script`]: it is read, checked and compiled with its valves folded in, on its own engine. A
//! [`Script`] with hooks becomes a [`valvehouse_core::filter::Filter`], one with handlers
//! [`valvehouse_core::tool::Tool`]s, and one that listens to agents [`ScriptCallbacks`].
//!
//! | room | contains |
//! |---|---|
//! | `declare` | what a file declares: the opening comment, constants, hooks, grants, schedules |
//! | `load` | the way from a file to a [`Script`] |
//! | `check` | what is wrong with a file that parses; [`diagnostic`] has the kinds of problems and their texts |
//! | `run` | calls within a budget, after an answer, on a timer, in a dry run |
//! | `filter`, `tool`, `pipe`, `action`, `callbacks` | what the functions of a script become |
//!
//! The language itself is [`valvehouse_dialect`], and what scripts can call [`valvehouse_script_std`].

#![warn(clippy::missing_errors_doc)]

mod action;
mod callbacks;
mod check;
mod declare;
pub mod diagnostic;
mod filter;
mod load;
mod pipe;
mod run;
mod script;
mod settings;
mod tool;

#[cfg(test)]
mod tests;

pub use action::{Button, ScriptAction};
pub use callbacks::ScriptCallbacks;
pub use declare::guard_claim::frontmatter;
pub use declare::manifest::{CHAT, ENDPOINTS, Manifest, claims_of, requested_by};
pub use declare::schedule::{Lists, ScheduledCall};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use load::compile::declared_valves;
pub use load::embed::{BuilderScripts, NotLoaded, ScriptFolder, filter};
pub use load::imports::{Imports, MAX_SOURCE, imported_by, is_module};
pub use load::loader::{
    FolderScan, LoadedFile, Loader, SourceSet, beginning, is_id, read_file, read_tests, read_text,
    script_of_tests, tests_of_script,
};
pub use load::source::{Kind, SourceFile};
pub use load::watch::Watch;
pub use pipe::{Offer, Pipe, Pipes};
pub use run::argument::UserValves;
pub use run::repl::{LineResult, Repl};
pub use run::sandbox::{Sandbox, SandboxRun, SandboxScript, TestOutside};
pub use script::Script;
pub use settings::Settings;
pub use tool::{Role, ScriptedTool, ServedTool, run_script};

/// Unit tests have the same memory limits as the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
