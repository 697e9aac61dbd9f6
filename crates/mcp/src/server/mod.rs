//! The host as an MCP server: over HTTP with or without sessions, and over standard input and output.

mod call;
mod caller;
mod endpoint;
mod events;
mod handler;
mod interceptors;
mod limits;
mod listing;
mod news;
mod offers;
mod question;
mod result;
mod open_sessions;
mod sessions;
mod stdio;
mod tokens;

pub use caller::Caller;
pub use endpoint::{Endpoint, Lapse};
pub use tokens::{Bearer, HeldToken, TokenChecker, TokenRejection};
