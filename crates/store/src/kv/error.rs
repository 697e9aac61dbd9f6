//! The limits of a map, and the errors of exceeding them.

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 512;

/// Largest value, in bytes of its JSON text.
pub const LARGEST_VALUE: usize = 64 * 1024;

/// Most keys of one plugin, in all its maps together.
pub const MAX_KEYS: usize = 10_000;

/// The bytes that one plugin's keys and values may take together: all of them are held in memory.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// The number of attempts of an update that another turn overtakes.
pub const MAX_TRIES: usize = 1_000;

/// The reason a map did not take a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// There is no such key.
    #[error("a key must have 1 to {MAX_KEY_BYTES} bytes, and this one has {0}")]
    Key(usize),
    /// The value's text is too long.
    #[error("a value exceeded its limit of {} KiB as JSON; store its parts under keys of their own", LARGEST_VALUE / 1024)]
    Value,
    /// The value is nested too deep.
    #[error("{0}")]
    Nested(String),
    /// The plugin has too many keys.
    #[error("the script exceeded its limit of {MAX_KEYS} keys; delete some, or let them expire with a ttl")]
    Full,
    /// The plugin keeps too much.
    #[error(
        "the script exceeded its limit of {} MiB; delete some keys, or let them expire with a ttl",
        MAX_BYTES >> 20
    )]
    Heavy,
    /// Something else than a number was to be counted up.
    #[error("cannot increase the value: it is of type {0}; use another key")]
    NoNumber(&'static str),
    /// The number has left its range.
    #[error("the number would exceed its range")]
    Overflow,
    /// Something else than a window stands under the key.
    #[error("cannot count under this key: it has another value; use a separate key")]
    NoWindow,
    /// The store that hosts share did not take the value.
    #[error("{0}")]
    Store(String),
    /// Other turns change the key all the time.
    #[error(
        "cannot update the value: other turns changed it {MAX_TRIES} times meanwhile; use `incr`, or separate keys"
    )]
    Contended,
}
