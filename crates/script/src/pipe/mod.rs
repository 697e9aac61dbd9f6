//! Scripts that are models: `fn pipe(body)` answers a chat, `fn pipes()` says for which names.
//!
//! Every filter runs around a pipe as around any other model; it is a [`Provider`] like the others.

mod declaration;
mod function;
mod provider;

pub(super) use declaration::{check_list, is_pipe, misplaced, read};
pub use function::Offer;
pub(super) use function::PipeFunction;
pub use provider::{Pipe, Pipes};
