//! Services with OpenAI's Responses API.
//!
//! Filters read a chat, as with every service. Content without an equivalent in chats is sent beside it:
//! items that only their service can read are blocks of a message ([`valvehouse_core::chat::items`]), and
//! settings of a client of the Responses API, such as hosted tools, are in the field `responses` of the
//! request.

mod answer;
mod ask;
mod provider;
mod stream;
#[cfg(test)]
mod tests;

pub use provider::OpenAiResponses;
