//! Answers of Ollama's API. A streamed answer has the form of the complete one, in several lines.

mod read;
mod write;

pub use read::OllamaReader;
pub use write::OllamaWriter;
