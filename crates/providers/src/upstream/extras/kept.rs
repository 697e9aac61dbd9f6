//! The entries of the memory: found by their keys, and dropped by age and size.

use super::extra::Extra;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::context::HeldMemory;

/// The maximum size of all entries, in bytes.
pub(super) const MAX_BYTES: usize = 32 << 20;
/// The maximum size of one entry, in bytes; larger ones are not stored.
pub(super) const MAX_ENTRY: usize = 1 << 20;
/// The maximum number of entries.
const MAX_ENTRIES: usize = 20_000;
/// The time after which an entry is dropped.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Default)]
pub(super) struct ExtraCache {
    pub(super) entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    pub(super) bytes: usize,
    pub(super) slots: HashMap<u64, Slot>,
    /// The number of entries of each owner.
    pub(super) owners: HashMap<u64, usize>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) extra: Arc<Extra>,
    pub(super) owner: u64,
    pub(super) keys: Vec<u64>,
    pub(super) size: usize,
    pub(super) since: Instant,
    pub(super) _held: HeldMemory,
}

/// The place of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    entry: u64,
    call: usize,
    context: u64,
    /// Set if calls of several conversations have the key.
    is_ambiguous: bool,
}

impl ExtraCache {
    pub(super) fn find(&self, key: u64) -> Option<(Arc<Extra>, usize)> {
        let slot = self.slots.get(&key).filter(|slot| !slot.is_ambiguous)?;
        let at = usize::try_from(slot.entry.checked_sub(self.first)?).ok()?;
        let entry = self.entries.get(at).filter(|entry| entry.since.elapsed() < MAX_AGE)?;
        Some((entry.extra.clone(), slot.call))
    }

    pub(super) fn add(&mut self, entry: Entry, keys: Vec<(u64, usize)>, context: u64) {
        let number = self.first + self.entries.len() as u64;
        for (key, call) in keys {
            let slot =
                self.slots.entry(key).or_insert(Slot { entry: number, call, context, is_ambiguous: false });
            // Only a key without the conversation can have another one.
            let is_ambiguous = slot.is_ambiguous || slot.context != context;
            *slot = Slot { entry: number, call, context, is_ambiguous };
        }
        *self.owners.entry(entry.owner).or_default() += 1;
        self.bytes += entry.size;
        self.entries.push_back(entry);
        while self.bytes > MAX_BYTES || self.entries.len() > MAX_ENTRIES || self.is_first_old() {
            self.drop_first();
        }
    }

    fn is_first_old(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.since.elapsed() >= MAX_AGE)
    }

    fn drop_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        for key in &entry.keys {
            if self.slots.get(key).is_some_and(|slot| slot.entry == self.first) {
                self.slots.remove(key);
            }
        }
        if let Some(count) = self.owners.get_mut(&entry.owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&entry.owner);
            }
        }
        self.bytes -= entry.size;
        self.first += 1;
    }
}
