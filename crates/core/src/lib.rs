//! The core of Valvehouse: chats, filters, tools, providers, and the kernel, whose turn runs chains of filters
//! around each model call and tool call.
//!
//! The modules are listed in dependency order; each uses only earlier ones. The kernel needs no web server,
//! database, command line or scripting language.

#![warn(clippy::missing_errors_doc)]

#[macro_use]
mod described;
pub mod text;
pub mod error_code;
pub mod error;
mod overload;
pub mod shared_queue;
pub mod chat;
pub mod limits;
pub mod schema;
pub mod valve;
pub mod breaker;
pub mod metrics;
pub mod trace;
pub mod context;
pub mod callback;
pub mod filter;
pub mod provider;
pub mod tool;
pub mod kernel;

pub use chat::ChatRequest;
pub use context::Context;
pub use error::{BoxError, Error};
pub use error_code::ErrorCode;
pub use filter::{Filter, Verdict};
pub use kernel::Kernel;
pub use provider::Provider;
pub use tool::Tool;
