//! Services with OpenAI's chat API.

mod answer;
mod provider;
#[cfg(test)]
mod tests;

pub use provider::OpenAi;
