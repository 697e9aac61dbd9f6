//! Services with Ollama's own API.

mod provider;
#[cfg(test)]
mod tests;

pub use provider::Ollama;
