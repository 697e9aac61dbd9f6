//! Anthropic's endpoint, `/v1/messages`, for all models.

pub(crate) mod count;
pub(crate) mod endpoint;
pub(crate) mod models;
pub(crate) mod rejection;
