//! OpenAI's Responses API.
//!
//! Filters read a chat, as with every protocol. Content without an equivalent in chats is beside it: items that only
//! their service can read are blocks of a message ([`valvehouse_core::chat::items`]), and settings of a client of this
//! API, such as hosted tools, are in the field `responses` of the request.

pub mod answer;
mod id;
mod order;
pub mod request;
pub mod stream;
mod tools;
pub mod usage;

pub use id::{new_id, now};
pub use tools::{Spaces, joined};
