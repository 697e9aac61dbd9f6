//! Requests of Ollama's API.

mod read;
mod write;

pub use read::{OllamaRequest, OllamaRoute, read};
pub(super) use write::call;
pub use write::write;
