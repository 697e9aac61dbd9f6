//! OpenAI's door: `/v1/models` and `/v1/chat/completions`.

mod chat;
mod keep_alive;
mod models;
mod relay;
mod wire;

pub(crate) use chat::chat;
pub(super) use chat::{EVENTS, Item, Streaming, events_header, named, read};
pub(crate) use models::{model, models};
