//! Streamed answers of the Messages API, as events.

mod events;
mod read;
mod write;

pub use read::MessagesReader;
pub use write::MessagesWriter;
