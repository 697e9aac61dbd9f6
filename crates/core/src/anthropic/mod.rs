//! Conversion between the Anthropic Messages API and the OpenAI chat format: requests, responses and streams.
//! No I/O.
//!
//! A model's text, thinking and tool calls are in the usual chat fields: `content`, `reasoning_content` and
//! `tool_calls`. Signatures, citations, server-side searches and the order of the blocks are in the message's
//! [`CONTENT_BLOCKS`](crate::chat::CONTENT_BLOCKS), which repeats no text, so that a redaction cannot miss a copy.
//! Settings that only Anthropic supports are in the request's [`ONLY_ANTHROPIC`](crate::chat::ONLY_ANTHROPIC).

mod answer;
mod ask;
mod blocks;
mod cite;
mod stop_reason;
mod thinking;
mod events;
mod part;
mod read;
mod reader;
mod tools;
mod writer;

pub use answer::{completion, message};
pub use ask::{AnthropicRequest, ask};
pub use blocks::signed_blocks;
pub use read::read;
pub use reader::Reader;
pub use stop_reason::{kind_of_status, status_of};
pub use writer::Writer;
