//! Requests of Ollama's API.

mod read;
mod write;

pub use read::{Kind, OllamaRequest, read};
pub use write::write;
