//! The entries of the memory: found by their keys, and dropped by age and size.

use super::extra::Extra;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::context::HeldMemory;
use valvehouse_core::shared_queue::SharedQueue;

/// The maximum size of all entries, which clients share, in bytes.
pub(super) const MAX_BYTES: usize = 32 << 20;
/// The maximum size of one entry, in bytes; larger ones are not stored.
pub(super) const MAX_ENTRY: usize = 1 << 20;
/// The maximum number of entries.
const MAX_ENTRIES: usize = 20_000;
/// The time after which an entry is dropped.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Default)]
pub(super) struct ExtraCache {
    pub(super) entries: SharedQueue<Option<u64>, Entry>,
    pub(super) slots: HashMap<u64, Slot>,
    /// The number of entries of each owner.
    pub(super) owners: HashMap<u64, usize>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) extra: Arc<Extra>,
    pub(super) owner: ExtraOwner,
    pub(super) keys: Vec<u64>,
    pub(super) since: Instant,
    pub(super) _held: HeldMemory,
}

/// The owner of an entry.
#[derive(Debug, Clone, Copy)]
pub(in crate::upstream) struct ExtraOwner {
    /// A digest of the client, if it is known.
    pub(super) client: Option<u64>,
    /// A digest of the client, the user, the provider and the model.
    pub(super) whole: u64,
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
        let entry = self.entries.get(slot.entry).filter(|entry| entry.since.elapsed() < MAX_AGE)?;
        Some((entry.extra.clone(), slot.call))
    }

    pub(super) fn add(&mut self, entry: Entry, size: usize, keys: Vec<(u64, usize)>, context: u64) {
        *self.owners.entry(entry.owner.whole).or_default() += 1;
        let number = self.entries.push(entry.owner.client, size, entry);
        for (key, call) in keys {
            let slot =
                self.slots.entry(key).or_insert(Slot { entry: number, call, context, is_ambiguous: false });
            // Only a key without the conversation can have another one.
            let is_ambiguous = slot.is_ambiguous || slot.context != context;
            *slot = Slot { entry: number, call, context, is_ambiguous };
        }
        let mut dropped = self.entries.fit(MAX_ENTRIES, MAX_BYTES);
        while let Some((number, _)) =
            self.entries.first().filter(|(_, entry)| entry.since.elapsed() >= MAX_AGE)
        {
            dropped.extend(self.entries.remove(number).map(|entry| (number, entry)));
        }
        dropped.into_iter().for_each(|(number, entry)| self.forget(number, &entry));
    }

    fn forget(&mut self, number: u64, entry: &Entry) {
        for key in &entry.keys {
            if self.slots.get(key).is_some_and(|slot| slot.entry == number) {
                self.slots.remove(key);
            }
        }
        if let Some(count) = self.owners.get_mut(&entry.owner.whole) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&entry.owner.whole);
            }
        }
    }
}
