//! The kv maps of scripts, held in memory and written in batches.
//!
//! Scripts read and change [`Kv`] without waiting for a disk. At its end, a turn waits for its durable writes
//! ([`Kv::flush_up_to`]), which are committed together with those of other turns; other writes follow
//! periodically ([`Kv::flush_all`]). Several changes of one key are written as one.
//!
//! Hosts that share a store exchange their changes ([`Kv::exchange`]). Counts are added to the stored value,
//! and each host may use only a share of the rest that a window had at the last exchange. A value derived
//! from the previous one is written at once, and only if the previous one is unchanged in the store
//! ([`Kv::swap`]).

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
