//! OpenAI's door: `/v1/models` and `/v1/chat/completions`.

mod chat;
mod keep_alive;
mod models;
mod relay;
mod wire;

pub(crate) use chat::chat;
pub(super) use chat::{AHEAD, EVENTS, Item, Streaming, events_header, named, read, wants_events};
pub(crate) use models::{model, models};
