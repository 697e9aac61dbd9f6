//! Valvehouse: a live plugin host for the traffic of large language models.
//!
//! Scripts in `filters/` and `tools/` are loaded while the host runs, sandboxed, and run on every chat and
//! every tool call, through every endpoint. This package is the binary and the facade of the library: each
//! layer is a package under `crates/`.
//!
//! | a program that | starts with |
//! |---|---|
//! | runs filters and tools around a model | [`Kernel::builder`], with a [`Filter`], a [`Tool`] and a [`Provider`] |
//! | stores a conversation and asks a user for decisions | [`Agent::builder`] |
//! | runs folders of scripts and reloads changed files | [`Host::builder`] |
//!
//! ```
//! use valvehouse::filter::{HookResult, PreChat};
//! use valvehouse::provider::CannedProvider;
//! use valvehouse::{Filter, Kernel, Verdict};
//!
//! struct Polite;
//!
//! impl Filter for Polite {
//!     async fn pre_chat(&self, chat: &mut PreChat) -> HookResult {
//!         match chat.messages().items().len() {
//!             1..=20 => Ok(Verdict::Continue),
//!             _ => Ok(Verdict::reject("the conversation is too long")),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), valvehouse::BoxError> {
//! // Answers without a network; any `Provider` works here.
//! let kernel = Kernel::builder().filter(Polite).provider(CannedProvider::new(["hello"])).build();
//! let mut stream = kernel.stream("good day")?;
//! while let Some(chunk) = stream.next().await {
//!     print!("{}", chunk?.text());
//! }
//! # Ok(()) }
//! ```
//!
//! The path of a request: [`server`] (`turn/serve.rs`) takes a [`host`] snapshot and runs a turn of the
//! [`kernel`], which runs the [`filter`] chains around each call of a [`provider`] or a [`tool`]; [`script`]
//! compiles scripts to filters and tools. For a model with a memory, [`app`] runs the same turn in an
//! [`agent`], which stores it in the [`store`] after each step.

pub use valvehouse_agent::Agent;
pub use valvehouse_core::chat::{ChatChunk, Message};
pub use valvehouse_core::{BoxError, ChatRequest, Context, Error, Filter, Kernel, Provider, Tool, Verdict};
pub use valvehouse_host::Host;
pub use valvehouse_host::app::App;
pub use valvehouse_json::{Json, json};

pub use valvehouse_agent as agent;
pub use valvehouse_config as config;
pub use valvehouse_core::{
    breaker, callback, chat, context, error, filter, kernel, limits, metrics, provider, schema, text, tool,
    trace, valve,
};
pub use valvehouse_dialect::crash;
pub use valvehouse_executor as executor;
pub use valvehouse_host::{self as host, access, admin, app};
pub use valvehouse_json as json;
pub use valvehouse_memory as memory;
pub use valvehouse_net as net;
pub use valvehouse_os as os;
pub use valvehouse_providers as llm;
pub use valvehouse_script as script;
pub use valvehouse_server as server;
pub use valvehouse_store::{self as store, seal};
pub use valvehouse_tokens as tokens;
pub use valvehouse_wire as wire;

pub mod cli;

/// Runs the examples of the library guide.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
mod guide {}
