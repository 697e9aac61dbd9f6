//! OpenAI's chat endpoint: `/v1/models` and `/v1/chat/completions`.

pub(crate) mod catalog;
pub(crate) mod chat;
pub(crate) mod models;
pub(crate) mod relay;
