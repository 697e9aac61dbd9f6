//! The limits of kv maps, and the errors of exceeding them.

/// The maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 512;

/// The maximum size of a value, in bytes of its JSON text.
pub const LARGEST_VALUE: usize = 64 * 1024;

/// The maximum number of keys of one plugin, in all its maps together.
pub const MAX_KEYS: usize = 10_000;

/// The maximum size of one plugin's keys and values in bytes; all of them are held in memory.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// The maximum number of attempts of an update that other turns overtake.
pub const MAX_TRIES: usize = 1_000;

/// The reason for rejecting a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// The length of the key in bytes is out of range.
    #[error("a key must have 1 to {MAX_KEY_BYTES} bytes, and this one has {0}")]
    Key(usize),
    /// The value is too large.
    #[error("a value exceeded its limit of {} KiB as JSON; store its parts under separate keys", LARGEST_VALUE / 1024)]
    Value,
    /// The value is nested too deeply.
    #[error("{0}")]
    Nested(String),
    /// The plugin has too many keys.
    #[error("the script exceeded its limit of {MAX_KEYS} keys; delete some, or let them expire with a ttl")]
    Full,
    /// The entries of the plugin are too large.
    #[error(
        "the script exceeded its limit of {} MiB; delete some keys, or let them expire with a ttl",
        MAX_BYTES >> 20
    )]
    Heavy,
    /// The value to be increased is not a number, but of this type.
    #[error("cannot increase the value: it is of type {0}; use another key")]
    NoNumber(&'static str),
    /// The sum is out of range.
    #[error("the number would exceed its range")]
    Overflow,
    /// The value of the key is not a window.
    #[error("cannot count under this key: it has another value; use a separate key")]
    NoWindow,
    /// The shared store rejected the value.
    #[error("{0}")]
    Store(String),
    /// Other turns changed the key in every attempt.
    #[error(
        "cannot update the value: other turns changed it {MAX_TRIES} times meanwhile; use `incr`, or separate keys"
    )]
    Contended,
}
