//! Requests of the Messages API.

mod read;
mod thinking;
mod write;

pub use read::read;
pub use write::{MessagesRequest, write};
