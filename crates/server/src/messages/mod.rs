//! Anthropic's door: `/v1/messages`, for any model there is.

mod models;
mod refusal;
mod streamed;
mod turn;

pub(crate) use models::{entry, list, speaks_anthropic};
pub(crate) use refusal::AnthropicError;
pub(crate) use turn::messages;
