//! Services with OpenAI's Responses API.

mod provider;
#[cfg(test)]
mod tests;

pub use provider::OpenAiResponses;
