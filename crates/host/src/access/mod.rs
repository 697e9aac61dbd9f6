//! Access to the host: keys by their digests, sessions of the page, and rate limits of wrong keys and
//! requests.
//!
//! This module holds state only; the endpoints turn a rejection into a response.

mod attempts;
mod digest;
mod keys;
mod rate;
mod sessions;
mod sockets;
mod state;

pub use attempts::Attempts;
pub use digest::Digest;
pub use keys::{Holder, Keys};
pub use rate::{Asker, Rate};
pub use sessions::{LIFE, NewSession, Session, Sessions};
pub use sockets::{OpenSocket, SocketLimit, Sockets};
pub use state::Access;
