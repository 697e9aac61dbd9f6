//! What nobody may guess or read: random words for keys and tokens, and values sealed with a key.

mod key;
mod random;

pub use key::{SHORTEST_KEY, SealKey, is_sealed};
pub use random::{random, random_word};
