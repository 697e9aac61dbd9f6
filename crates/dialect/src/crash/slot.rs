//! The slot of each thread: the version it runs and the start time; the numbers of the versions in the mapped file;
//! and the layout of that file.

use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The free slots.
pub(super) static FREE: Mutex<Vec<u16>> = Mutex::new(Vec::new());

thread_local! {
    /// The words of this thread's slot; none before the first use or if all slots are taken.
    pub(super) static OWN: Cell<Own> = const { Cell::new(Own::Unset) };
    /// Frees the slot when the thread ends.
    static RETURN: Cell<Option<SlotGuard>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
pub(super) enum Own {
    Unset,
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
        Own::Unset => taken(),
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

/// The version that a thread ran before, and its start in milliseconds, to be restored later.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    what: u64,
    since: u64,
}

/// Records that this thread runs a version from this millisecond on. Returns the previous state.
#[inline]
pub fn running(version: &RunVersion, tick: u64) -> Mark {
    store(u64::from(version.0), tick)
}

/// Restores the state before a call; the default clears it.
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

/// Records that this thread loads a version, until the returned value is dropped.
#[must_use]
pub fn loading(id: &str, hash: &str, tick: u64) -> LoadedVersion {
    let version = RunVersion::of(id, hash);
    let what = if version.0 == 0 { 0 } else { u64::from(version.0) | LOADING };
    LoadedVersion { before: store(what, tick), _version: version }
}

/// A version that is being loaded.
#[derive(Debug)]
pub struct LoadedVersion {
    before: Mark,
    _version: RunVersion,
}

impl Drop for LoadedVersion {
    fn drop(&mut self) {
        stopped(self.before);
    }
}

static NUMBERS: Mutex<Option<Numbers>> = Mutex::new(None);

/// A version of a plugin that may run; registered in the record while this value exists.
#[derive(Debug, Default)]
pub struct RunVersion(pub(super) u32);

#[derive(Default)]
struct Numbers {
    known: HashMap<(String, String), u32>,
    /// The version of each number, and its reference count.
    held: Vec<Option<((String, String), u32)>>,
    free: Vec<u32>,
}

impl RunVersion {
    /// Registers the version of a plugin with this hash, which is SHA-256 in hexadecimal digits.
    pub fn of(id: &str, hash: &str) -> Self {
        let Some(words) = WORDS_OF_PROCESS.get() else { return Self(0) };
        let mut numbers = NUMBERS.lock();
        let numbers = numbers.get_or_insert_default();
        let key = (id.to_owned(), hash.to_owned());
        if let Some(number) = numbers.known.get(&key).copied() {
            if let Some((_, holders)) = &mut numbers.held[number as usize - 1] {
                *holders += 1;
            }
            return Self(number);
        }
        let number = match numbers.free.pop() {
            Some(number) => number,
            None if numbers.held.len() < VERSIONS => {
                numbers.held.push(None);
                numbers.held.len() as u32
            }
            None => return Self(0),
        };
        write_version(&words[place_of(number)..][..VERSION], id, hash);
        numbers.known.insert(key.clone(), number);
        numbers.held[number as usize - 1] = Some((key, 1));
        Self(number)
    }
}

impl Drop for RunVersion {
    fn drop(&mut self) {
        if self.0 == 0 {
            return;
        }
        let mut numbers = NUMBERS.lock();
        let Some(numbers) = numbers.as_mut() else { return };
        let place = &mut numbers.held[self.0 as usize - 1];
        if let Some((_, holders)) = place {
            *holders -= 1;
            if *holders == 0 {
                let key = place.take().map(|(key, _)| key);
                key.and_then(|key| numbers.known.remove(&key));
                numbers.free.push(self.0);
            }
        }
    }
}

fn write_version(words: &[AtomicU64], id: &str, hash: &str) {
    let mut bytes = [0; VERSION * 8];
    let length = id.len().min(ID * 8);
    bytes[..length].copy_from_slice(&id.as_bytes()[..length]);
    let digits = hash.as_bytes().chunks_exact(2).take(HASH * 8);
    for (byte, digits) in bytes[ID * 8..].iter_mut().zip(digits) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or(0);
    }
    for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"VHRUN001");

// The layout in words of eight bytes: the header, the slots, the versions.
pub(super) const HEADER: usize = 8;
pub(super) const SLOTS: usize = 512;
pub(super) const SLOT: usize = 8;
pub(super) const VERSIONS: usize = 8_192;
pub(super) const VERSION: usize = 12;
pub(super) const WORDS: usize = HEADER + SLOTS * SLOT + VERSIONS * VERSION;

/// The index of the latest tick in the header.
pub(super) const BEAT: usize = 1;
pub(super) const FAULT: usize = 2;

/// The number of words of an id and of a hash.
pub(super) const ID: usize = 8;
pub(super) const HASH: usize = 4;

/// The flag for loading in the first word of a slot, next to the version's number.
pub(super) const LOADING: u64 = 1 << 32;

pub(super) type Words = &'static [AtomicU64];

pub(super) static WORDS_OF_PROCESS: OnceLock<Words> = OnceLock::new();

pub(super) fn place_of(number: u32) -> usize {
    HEADER + SLOTS * SLOT + (number as usize - 1) * VERSION
}

/// Records that the process is alive at this millisecond.
#[inline]
pub(crate) fn beat(tick: u64) {
    if let Some(words) = WORDS_OF_PROCESS.get() {
        words[BEAT].store(tick, Relaxed);
    }
}
