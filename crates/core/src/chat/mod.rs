//! Functions for chats: messages, requests, answers, tool calls and streamed answers.
//!
//! All values are plain [`Json`](valvehouse_json::Json) in the format of the OpenAI chat API; the functions
//! read and write it. No I/O.

pub mod call;
mod call_stream;
mod chunk;
pub mod content_blocks;
pub mod delta;
pub mod ending;
pub mod effort;
mod encoded_text;
mod escapes;
pub mod event;
pub mod history;
pub mod items;
mod json_text;
pub mod keys;
pub mod media;
pub(crate) mod log_probabilities;
pub mod message;
mod messages;
mod outline;
mod parts;
mod plain;
pub mod request;
pub mod response;
pub mod secrets;
pub mod split;
pub mod tool_results;
pub mod window;

pub use call::ModelCall;
pub use call_stream::CallStream;
pub use chunk::ChatChunk;
pub use content_blocks::CONTENT_BLOCKS;
pub use delta::Fold;
pub use ending::Ending;
#[cfg(feature = "typed")]
pub use messages::serialized;
pub use messages::{IntoMessages, Message};
pub use outline::{MessageTraits, Outline};
pub use parts::ChunkParts;
pub use plain::{LOST_THOUGHTS, ONLY_ANTHROPIC, ONLY_OLLAMA, asked_effort, left_out, plain};
pub use request::ChatRequest;
pub use response::Head;
pub use split::{TextChunks, split, split_texts};
