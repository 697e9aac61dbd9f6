//! The maps that scripts keep for themselves: the truth in memory, written behind.
//!
//! Scripts read and change [`Kv`] without waiting for a disk. The end of a turn waits until its durable
//! writes are there ([`Kv::flush_up_to`]), in one commit with those of other turns; the others are written
//! from time to time ([`Kv::flush_all`]). What many turns did to one key in between is one change.
//!
//! Hosts that share a store exchange their changes ([`Kv::exchange`]): what was counted is added to what is stored, and of the
//! room that a window had left at the last exchange each host gives out a share only. A value that is made of the one before
//! goes to the store at once, which takes it only if that one is still there ([`Kv::swap`]).

mod entries;
mod error;
mod map;
mod pending;
mod registry;
mod window;

pub use error::{KvError, LARGEST_VALUE, MAX_KEY_BYTES, MAX_KEYS, MAX_TRIES};
pub use map::{KvMap, SeenValue};
pub use registry::Kv;
pub use window::Window;

pub(crate) use pending::joined;

#[cfg(test)]
mod tests;
