//! Anthropic's Messages in OpenAI's chat words, and back: requests, answers, streams. No I/O.
//!
//! A model's text, its thinking and its tool calls stand where every reader of chat words looks for
//! them: `content`, `reasoning_content`, `tool_calls`. What has no place there (signatures, citations,
//! searches the service made itself, and the order of it all) stands in the message's
//! [`CONTENT_BLOCKS`], which holds no text twice: a redaction cannot miss one. Wishes only Anthropic
//! knows stand in the request's [`ONLY_ANTHROPIC`].

mod answer;
mod ask;
mod blocks;
mod cite;
mod ending;
mod events;
mod part;
mod plain;
mod read;
mod reader;
mod tools;
mod writer;

pub use answer::{completion, message};
pub use ask::{AnthropicRequest, ask};
pub use blocks::{remember_before, reseal};
pub use ending::{kind_of_status, status_of};
pub use part::{CONTENT_BLOCKS, ONLY_ANTHROPIC};
pub use plain::{left_out, plain};
pub use read::read;
pub use reader::Reader;
pub use writer::Writer;
