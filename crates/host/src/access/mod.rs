//! Access to the host: keys by their digests with their limits, sessions of the page, and rate limits of wrong keys and
//! requests.
//!
//! This module holds state only; the endpoints turn a rejection into a response.

mod attempts;
mod digest;
mod issued;
mod keys;
mod rate;
mod rights;
mod sessions;
mod sockets;
mod state;

pub use attempts::Attempts;
pub use digest::Digest;
pub use issued::{IssuedKey, IssuedKeys, KeyUse, LeftOver, ReachedKeyLimit};
pub use keys::{Holder, Keys};
pub use rate::{Asker, Rate};
pub(crate) use rights::GROUP;
pub use rights::{InvalidKey, KeyRecord, KeyRights, check_key_name};
pub use sessions::{LIFE, NewSession, Session, Sessions};
pub use sockets::{OpenSocket, SocketLimit, Sockets};
pub use state::Access;
pub use valvehouse_config::OperatorRole;
