//! Anthropic's Messages API.
//!
//! A model's text, thinking and tool calls are in the usual chat fields: `content`, `reasoning_content` and
//! `tool_calls`. Signatures, citations, server-side searches and the order of the blocks are in the message's
//! [`CONTENT_BLOCKS`](valvehouse_core::chat::CONTENT_BLOCKS), which repeats no text, so that a redaction cannot miss a
//! copy. Settings that only Anthropic supports are in the request's
//! [`ONLY_ANTHROPIC`](valvehouse_core::chat::ONLY_ANTHROPIC).

pub mod answer;
mod blocks;
mod cite;
mod error;
pub mod models;
mod part;
pub mod request;
mod stop_reason;
pub mod stream;
mod tools;

pub use blocks::signed_blocks;
pub use error::{kind_of_status, status_of};
