//! Outgoing HTTP: a pooled client, server-sent events, and redacted keys.
//!
//! This is the only package that uses `reqwest`, and `hyper` for calls. Callers name the provider of a call,
//! so that errors name the setting to check. [`YieldingStream`] schedules the writes of connections,
//! including incoming ones.

mod body;
mod call;
mod client;
mod explain;
mod plain;
pub mod sse;
pub mod web;
mod yielding;

pub use body::{MAX_BODY, Response};
pub use call::{Address, HttpCall};
pub use client::{Client, following_nobody};
pub use explain::shown;
pub use web::Web;
pub use yielding::YieldingStream;
