//! The turn that all endpoints share: [`serve::serve_turn`] runs it between the decoding of an
//! [`endpoint::Endpoint`] and the encoding of its [`endpoint::Encoder`].

pub(crate) mod answer_bytes;
pub(crate) mod emitted_event;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod keep_alive;
pub(crate) mod serve;
