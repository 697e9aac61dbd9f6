//! Ollama's own API, which supports more than its OpenAI-compatible API: thinking, options and complete
//! arguments.

mod answer;
mod provider;
mod request;
#[cfg(test)]
mod tests;

pub use provider::Ollama;
