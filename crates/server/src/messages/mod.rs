//! Anthropic's endpoint: `/v1/messages`, for any model there is.

pub(crate) mod count;
pub(crate) mod endpoint;
pub(crate) mod models;
pub(crate) mod rejection;
