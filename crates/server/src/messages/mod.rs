//! Anthropic's door: `/v1/messages`, for any model there is.

pub(crate) mod count;
pub(crate) mod models;
pub(crate) mod refusal;
mod stream;
pub(crate) mod turn;
