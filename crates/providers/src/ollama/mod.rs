//! Ollama by its own API, which supports more than its copy of OpenAI's: thinking, options, whole arguments.

mod answer;
mod provider;
mod request;
#[cfg(test)]
mod tests;

pub use provider::Ollama;
