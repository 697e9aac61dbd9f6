//! Objects that stay in their document until they are read, and the keys that they may have.

use crate::entries::tag;
use bytes::Bytes;

/// An object of plain values, as it stands in the document that it came in.
#[derive(Clone)]
pub(super) struct Unread {
    pub(super) spelling: Bytes,
    pub(super) keys: Keys,
}

impl Unread {
    /// An object that was found to be of that kind, with these keys.
    pub(super) fn new(spelling: Bytes, keys: Keys) -> Self {
        Self { spelling, keys }
    }

    pub(super) fn spelling(&self) -> &Bytes {
        &self.spelling
    }
}

/// The keys there may be: few share length and both ends.
#[derive(Clone, Copy, Default)]
pub(super) struct Keys(u64);

impl Keys {
    #[inline]
    fn bit(key: &str) -> u64 {
        1 << (tag(key) % 64)
    }

    #[inline]
    pub(super) fn may_have(self, key: &str) -> bool {
        self.0 & Self::bit(key) != 0
    }

    /// Adds a key, and says whether it is a new one for sure.
    #[inline]
    pub(super) fn add(&mut self, key: &str) -> bool {
        let before = self.0;
        self.0 |= Self::bit(key);
        self.0 != before
    }
}
