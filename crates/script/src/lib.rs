//! Scripts: what a file is, how it loads and how it runs.
//!
//! A file becomes a [`Script`]: it is read, checked and compiled with its valves folded in, on its own engine. A
//! [`Script`] with hooks becomes a [`valvehouse_core::filter::Filter`], one with handlers
//! [`valvehouse_core::tool::Tool`]s, and one that listens to agents [`ScriptCallbacks`].

#![warn(clippy::missing_errors_doc)]

mod action;
mod afterwards;
mod answer;
mod argument;
pub mod budget;
pub mod call;
mod callbacks;
mod bounded_call;
mod guard_claim;
mod clock;
mod compile;
mod coverage;
pub mod crash;
mod warnings;
mod embed;
mod final_statement;
pub mod engine;
mod filter;
mod folding;
mod grants;
mod hooks;
mod imports;
mod input_size;
mod instrument;
mod interpreter;
mod language;
mod link;
mod lint;
mod literal;
mod loader;
mod log;
mod manifest;
mod misnamed;
mod names;
mod package;
mod periodic;
pub mod spans;
mod pipe;
pub mod diagnostic;
mod resources;
mod redaction;
pub mod reference;
mod rename;
mod repl;
mod run;
mod sandbox;
mod schedule;
mod script;
mod settings;
mod shadow;
mod source;
mod sources;
mod standard;
mod syntax;
pub mod thrown;
mod tokens;
mod tool;
pub mod value;
mod value_limits;
mod watch;
mod windows;

#[cfg(test)]
mod tests;

pub use action::{Button, ScriptAction};
pub use argument::UserValves;
pub use budget::Budget;
pub use callbacks::ScriptCallbacks;
pub use compile::declared_valves;
pub use coverage::Coverage;
pub use diagnostic::{Code, Diagnostic, Severity};
pub use embed::{BuilderScripts, NotLoaded, ScriptFolder, filter};
pub use guard_claim::frontmatter;
pub use imports::{Imports, MAX_SOURCE, imported_by, is_module};
pub use loader::{
    FolderScan, LoadedFile, Loader, SourceSet, beginning, is_id, read_file, read_tests, read_text,
    script_of_tests, tests_of_script,
};
pub use manifest::{CHAT, ENDPOINTS, Manifest, claims_of};
pub use package::{RhaiResultOf, store_memory};
pub use pipe::{Offer, Pipe, Pipes};
pub use repl::{LineResult, Repl};
pub use resources::{
    Background, ChatRecord, Chats, EmbedRequest, Embeddings, HostTools, Models, Question, SetClock, Work,
};
pub use sandbox::{Sandbox, SandboxRun, SandboxScript, TestOutside};
pub use schedule::{Lists, ScheduledCall};
pub use script::Script;
pub use settings::Settings;
pub use source::{Kind, SourceFile};
pub use tool::{Role, ScriptedTool, ServedTool, run_script};
pub use value_limits::set_max_text;
pub use watch::Watch;

/// Unit tests have the same memory limits as the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
