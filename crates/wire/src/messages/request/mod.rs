//! Requests of the Messages API.

mod read;
mod thinking;
mod write;

pub use read::read;
pub(crate) use write::{MAX_TOKENS, REFUSED_BETAS};
pub use write::{MessagesRequest, write};
