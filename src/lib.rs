//! Valvehouse: a live plugin host for the traffic of large language models.
//!
//! People drop scripts into `filters/` and `tools/`; the host loads them live, sandboxes them, and runs
//! them on every chat and every tool call, through every endpoint. This package is the binary and the front page of
//! the library: each layer is a package of its own under `crates/`, and uses only those above it in this list.
//!
//! To follow one request: [`server`] (`turn/serve.rs`) takes a [`host`] snapshot and runs the
//! [`kernel`]'s turn, which folds the [`filter`] chain around a [`provider`] and around each call of
//! a [`tool`]; scripts become filters and tools in [`script`]. Where the model has a memory, [`app`] has an
//! [`agent`] run that same turn, which keeps it in the [`store`] after each step.

pub use valvehouse_agent::Agent;
pub use valvehouse_core::{
    BoxError, ChatRequest, Context, Fault, Filter, FilterContext, Kernel, Provider, Tool, Verdict,
};
pub use valvehouse_host::Host;
pub use valvehouse_json::Json;

pub use valvehouse_agent as agent;
pub use valvehouse_config as config;
pub use valvehouse_core::{
    anthropic, breaker, callback, chat, context, fault, figures, filter, kernel, lanes, limits, provider,
    tool, trace, valve, words,
};
pub use valvehouse_host::{self as host, access, admin, app};
pub use valvehouse_json as json;
pub use valvehouse_memory as memory;
pub use valvehouse_net as net;
pub use valvehouse_os as machine;
pub use valvehouse_providers as llm;
pub use valvehouse_script::{self as script, crash};
pub use valvehouse_server as server;
pub use valvehouse_store::{self as store, seal};
pub use valvehouse_tokens as tokens;

pub mod cli;

/// The examples of the guide for users of the library, which are run.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
mod guide {}
