//! The maps that scripts keep for themselves: the truth in memory, written behind.
//!
//! Scripts read and change [`Kv`] without waiting for a disk. The end of a turn waits until its durable
//! writes are there ([`Kv::flush_up_to`]), in one commit with those of other turns; the others are written
//! from time to time ([`Kv::flush_all`]). What many turns did to one key in between is one change.

mod entries;
mod error;
mod map;
mod registry;
mod window;

pub use error::{KvError, LARGEST_VALUE, MAX_KEY_BYTES, MAX_KEYS};
pub use map::KvMap;
pub use registry::Kv;
pub use window::Window;

#[cfg(test)]
mod tests;
