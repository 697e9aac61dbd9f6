//! Requests of the Responses API.

mod input;
mod read;
mod tools;
mod write;

pub use input::{COMPACT, items, sealed};
pub use read::{ResponsesRequest, check, conversation_id, read};
pub use write::write;
