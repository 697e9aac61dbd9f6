//! OpenAI's door: `/v1/models` and `/v1/chat/completions`.

pub(crate) mod catalog;
pub(crate) mod chat;
pub(crate) mod keep_alive;
pub(crate) mod models;
mod relay;
pub(crate) mod streaming;
pub(crate) mod wire;
