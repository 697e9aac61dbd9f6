//! Services with OpenAI's chat API.

mod answer;
mod provider;
mod quirks;
#[cfg(test)]
mod tests;

pub use provider::OpenAi;
