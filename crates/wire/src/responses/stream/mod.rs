//! Streamed answers of the Responses API, as events.

mod read;
mod write;

pub use read::ResponsesReader;
pub use write::{NO_SUMMARY, ResponsesWriter};
