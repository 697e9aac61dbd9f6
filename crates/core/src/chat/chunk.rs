//! A chunk of a streamed answer.

use super::{ChunkParts, event, response};
use valvehouse_json::Json;

/// A chunk of a streamed answer, a `chat.completion.chunk`.
#[derive(Debug, Clone)]
pub struct ChatChunk(Json);

impl ChatChunk {
    /// Creates a chunk from an event.
    pub fn new(event: Json) -> Self {
        Self(event)
    }

    /// Returns the text that the chunk adds to the answer; "" if it has none.
    pub fn text(&self) -> String {
        event::text(&self.0).into()
    }

    /// Returns the reason for the end of the answer, in its last chunk.
    pub fn finish_reason(&self) -> Option<String> {
        event::choice(&self.0)?.text("finish_reason").map(String::from)
    }

    /// Returns the token counts of the answer, an object, in the chunk that has them.
    pub fn usage(&self) -> Option<Json> {
        response::usage_of(&self.0)
    }

    /// Returns the parts of the answer that the chunk contains.
    pub fn parts(&self) -> ChunkParts {
        ChunkParts::of(&self.0)
    }

    /// Returns the chunk as JSON.
    pub fn as_json(&self) -> &Json {
        &self.0
    }
}
