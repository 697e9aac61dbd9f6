//! OpenAI's door: `/v1/models` and `/v1/chat/completions`.

mod chat;
mod models;
mod relay;
mod wire;

pub(crate) use chat::chat;
pub(crate) use models::{model, models};
