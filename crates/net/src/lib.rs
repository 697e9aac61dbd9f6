//! Outward HTTP: one pooled client, server-sent events, and keys that never show.
//!
//! The only user of `reqwest`, and of `hyper` for calls. Who calls names the provider it talks to, so that an
//! error can say which line of the configuration to look at. [`YieldingStream`] is how connections write, those that come in
//! as well.

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
