//! The layout of the mapped file.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"VHRUN001");

// In words of eight bytes: the header, the slots, the versions.
pub(super) const HEADER: usize = 8;
pub(super) const SLOTS: usize = 512;
pub(super) const SLOT: usize = 8;
pub(super) const VERSIONS: usize = 8_192;
pub(super) const VERSION: usize = 12;
pub(super) const WORDS: usize = HEADER + SLOTS * SLOT + VERSIONS * VERSION;

/// In the header.
pub(super) const BEAT: usize = 1;
pub(super) const FAULT: usize = 2;

/// Words of an id, and of a hash, in a version.
pub(super) const ID: usize = 8;
pub(super) const HASH: usize = 4;

/// In the first word of a slot, beside the version's number.
pub(super) const LOADING: u64 = 1 << 32;

pub(super) type Words = &'static [AtomicU64];

pub(super) static WORDS_OF_PROCESS: OnceLock<Words> = OnceLock::new();

pub(super) fn place_of(number: u32) -> usize {
    HEADER + SLOTS * SLOT + (number as usize - 1) * VERSION
}

/// Stores that the process lives at this millisecond.
#[inline]
pub(crate) fn beat(tick: u64) {
    if let Some(words) = WORDS_OF_PROCESS.get() {
        words[BEAT].store(tick, Relaxed);
    }
}
