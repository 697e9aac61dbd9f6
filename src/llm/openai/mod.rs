//! Any service that speaks OpenAI's chat API.

mod provider;
mod stream;
#[cfg(test)]
mod tests;

pub use provider::OpenAi;
