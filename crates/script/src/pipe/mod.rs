//! Scripts that are models: `fn pipe(body)` answers a chat; `fn pipes()` lists the names of the models.
//!
//! Every filter runs around a pipe as around any other model: a pipe is a [`Provider`].

mod declaration;
mod function;
mod provider;

pub(super) use declaration::{check_list, is_pipe, misplaced, read};
pub use function::Offer;
pub(super) use function::PipeFunction;
pub use provider::{Pipe, Pipes};
