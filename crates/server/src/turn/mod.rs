//! One turn for every endpoint: [`serve::serve_turn`] runs it between what an [`endpoint::Endpoint`] reads and what its
//! [`endpoint::Encoder`] writes.

pub(crate) mod answer_bytes;
mod emitted;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod keep_alive;
pub(crate) mod serve;
