//! The slot of each thread: the version that it runs, and since when.

use super::layout::{HEADER, LOADING, SLOT, WORDS_OF_PROCESS};
use super::version::Version;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The slots that no thread has.
pub(super) static FREE: Mutex<Vec<u16>> = Mutex::new(Vec::new());

thread_local! {
    /// The words of this thread's slot: none where it has not asked yet, or where there is none for it.
    pub(super) static OWN: Cell<Own> = const { Cell::new(Own::NotAsked) };
    /// Gives the slot back when the thread ends.
    static RETURN: Cell<Option<SlotGuard>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
pub(super) enum Own {
    NotAsked,
    None,
    Slot(u16, &'static [AtomicU64; 2]),
}

struct SlotGuard(u16);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if let Own::Slot(_, words) = OWN.replace(Own::None) {
            words[0].store(0, Relaxed);
        }
        FREE.lock().push(self.0);
    }
}

#[inline]
fn slot() -> Option<&'static [AtomicU64; 2]> {
    match OWN.get() {
        Own::Slot(_, words) => Some(words),
        Own::None => None,
        Own::NotAsked => taken(),
    }
}

#[cold]
fn taken() -> Option<&'static [AtomicU64; 2]> {
    let words = WORDS_OF_PROCESS.get().and_then(|words| {
        let number = FREE.lock().pop()?;
        let own = words[HEADER + usize::from(number) * SLOT..].first_chunk::<2>()?;
        own[0].store(0, Relaxed);
        RETURN.set(Some(SlotGuard(number)));
        OWN.set(Own::Slot(number, own));
        Some(own)
    });
    if words.is_none() {
        OWN.set(Own::None);
    }
    words
}

/// The version that a thread ran before, and the millisecond since when; it is stored again later.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    what: u64,
    since: u64,
}

/// Stores that this thread runs a version from this millisecond on; returns what it ran before.
#[inline]
pub fn running(version: &Version, tick: u64) -> Mark {
    store(u64::from(version.0), tick)
}

/// Stores that this thread runs again what it ran before; nothing for the default.
#[inline]
pub fn stopped(before: Mark) {
    store(before.what, before.since);
}

#[inline]
fn store(what: u64, since: u64) -> Mark {
    let Some(slot) = slot() else { return Mark::default() };
    let before = Mark { what: slot[0].load(Relaxed), since: slot[1].load(Relaxed) };
    slot[1].store(since, Relaxed);
    slot[0].store(what, Relaxed);
    before
}

/// Stores that this thread loads a version, until what it returns is dropped.
#[must_use]
pub fn loading(id: &str, hash: &str, tick: u64) -> Loading {
    let version = Version::of(id, hash);
    let what = if version.0 == 0 { 0 } else { u64::from(version.0) | LOADING };
    Loading { before: store(what, tick), _version: version }
}

/// A version that is loaded.
#[derive(Debug)]
pub struct Loading {
    before: Mark,
    _version: Version,
}

impl Drop for Loading {
    fn drop(&mut self) {
        stopped(self.before);
    }
}
