//! Streamed answers of the Responses API, as events.

mod read;
mod write;

pub use read::Reader;
pub use write::Writer;
