//! Ollama's own API, which supports more than its OpenAI-compatible API: thinking, options and complete
//! arguments.

pub mod answer;
pub mod models;
pub mod request;
