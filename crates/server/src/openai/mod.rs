//! OpenAI's door: `/v1/models` and `/v1/chat/completions`.

mod chat;
mod keep_alive;
mod models;
mod relay;
mod streaming;
mod wire;

pub(crate) use chat::chat;
pub(super) use chat::{DOOR, EVENTS, events_header, named, parsed, read, unpacked};
pub(super) use keep_alive::KeepAlive;
pub(super) use models::list;
pub(crate) use models::{model, models};
pub(super) use streaming::{Item, Streaming, Told, as_events, wants_events};
pub(super) use wire::named_event;
