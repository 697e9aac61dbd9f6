//! Answers of Ollama's API. A streamed answer has the form of the complete one, in several lines.

mod read;
mod write;

pub use read::Reader;
pub use write::Writer;
