//! The access to the host: keys by their digests, sessions of the page, the rates of attempts and of
//! requests.
//!
//! Plain state, which knows no endpoints: what an answer to a refusal looks like is theirs to say.

mod attempts;
mod digest;
mod keys;
mod rate;
mod sessions;
mod state;

pub use attempts::Attempts;
pub use digest::Digest;
pub use keys::{Holder, Keys};
pub use rate::{Asker, Rate};
pub use sessions::{LIFE, NewSession, Session, Sessions};
pub use state::Access;
