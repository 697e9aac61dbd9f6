//! A service that is asked over OpenAI's Responses API.
//!
//! Filters see a chat, as with every service; what a chat cannot say travels beside it: items that only their service
//! reads stand in a message's blocks ([`valvehouse_core::chat::items`]), and the wishes of a client that speaks Responses
//! itself, such as hosted tools, come with the exchange of its request.

mod answer;
mod ask;
mod provider;
mod stream;
#[cfg(test)]
mod tests;

pub use provider::OpenAiResponses;
