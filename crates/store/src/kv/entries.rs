//! The kv entries of one plugin: their sizes, their expiry, and unwritten changes.

use super::error::{KvError, MAX_BYTES, MAX_KEYS};
use super::pending::Pending;
use super::window::{self, Slot};
use crate::record::{KvChange, KvRow};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use valvehouse_json::Json;

/// The kv maps of one plugin. Values are replaced completely, so a clone is an independent copy.
#[derive(Default, Clone)]
pub(super) struct Maps {
    pub(super) plugin: Arc<str>,
    pub(super) scopes: HashMap<String, HashMap<String, Entry>>,
    pub(super) count: usize,
    bytes: usize,
    /// The number of the last write; each write has its own number.
    pub(super) version: u64,
    pub(super) changed: BTreeMap<(String, String), Pending>,
    /// The number of hosts that share the store; `None` if it is not shared.
    pub(super) hosts: Option<Arc<AtomicU64>>,
    /// The hits in windows that this host counted since the last exchange.
    own_hits: HashMap<(String, String), Vec<Slot>>,
    /// The earliest time at which an entry may expire.
    next_end: Option<i64>,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Json,
    /// Its size in bytes, including the key.
    bytes: usize,
    pub(super) expires_at: Option<i64>,
    pub(super) version: u64,
}

impl Entry {
    pub(super) fn is_over(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

impl Maps {
    /// Creates empty maps of a plugin on a store with this number of hosts.
    pub(super) fn of(plugin: &str, hosts: Option<Arc<AtomicU64>>) -> Self {
        Self { plugin: plugin.into(), hosts, ..Self::default() }
    }

    pub(super) fn entry(&self, scope: &str, key: &str, now: i64) -> Option<&Entry> {
        self.scopes.get(scope)?.get(key).filter(|entry| !entry.is_over(now))
    }

    /// Returns `true` if the last write of an entry has this number; 0 stands for a missing entry.
    pub(super) fn is_as_seen(&self, scope: &str, key: &str, version: u64, now: i64) -> bool {
        self.entry(scope, key, now).map_or(0, |entry| entry.version) == version
    }

    pub(super) fn write(
        &mut self,
        scope: &str,
        key: &str,
        value: Json,
        expires_at: Option<i64>,
        now: i64,
        pending: Pending,
    ) -> Result<(), KvError> {
        if value.is_null() {
            self.remove(scope, key);
            return Ok(());
        }
        let is_new = self.make_room(scope, key, &value, now)?;
        self.put(scope, key, value, expires_at);
        self.note(scope, key, pending, is_new);
        Ok(())
    }

    /// Checks that there is room for a value. Returns `true` if the key has no entry.
    pub(super) fn make_room(
        &mut self,
        scope: &str,
        key: &str,
        value: &Json,
        now: i64,
    ) -> Result<bool, KvError> {
        let before = self.scopes.get(scope).and_then(|entries| entries.get(key)).map(|entry| entry.bytes);
        let grows = (bytes_of(key, value)).saturating_sub(before.unwrap_or(0));
        if (before.is_none() && self.count >= MAX_KEYS) || self.bytes + grows > MAX_BYTES {
            self.sweep(now);
        }
        if before.is_none() && self.count >= MAX_KEYS {
            return Err(KvError::Full);
        }
        if grows > 0 && self.bytes + grows > MAX_BYTES {
            return Err(KvError::Heavy);
        }
        Ok(before.is_none())
    }

    /// Records a change that has to be written. `is_new` is `true` if there was no entry before.
    pub(super) fn note(&mut self, scope: &str, key: &str, pending: Pending, is_new: bool) {
        use std::collections::btree_map::Entry::{Occupied, Vacant};
        let pending = if self.hosts.is_some() { pending } else { Pending::Replace };
        match self.changed.entry((scope.to_owned(), key.to_owned())) {
            Vacant(vacant) => _ = vacant.insert(pending),
            Occupied(mut waiting) => match (waiting.get(), is_new) {
                // The previous entry has expired, and its unwritten counts with it.
                (Pending::Add(_) | Pending::Hits(..), true) => _ = waiting.insert(pending),
                _ => waiting.get_mut().join(pending),
            },
        }
    }

    /// Applies a stored entry, and the unwritten changes on top of it.
    pub(super) fn receive(&mut self, row: KvRow, now: i64) {
        let stored =
            (!row.value.is_null() && row.expires_at.is_none_or(|end| end > now)).then_some(&row.value);
        let place = (row.scope.clone(), row.key.clone());
        let value = match self.changed.get(&place) {
            Some(Pending::Replace) => return,
            Some(pending) => match pending.on(stored, now) {
                Some(value) => Some(value),
                // The stored value is of another type and cannot be counted up.
                None => {
                    self.changed.remove(&place);
                    stored.cloned()
                }
            },
            None => stored.cloned(),
        };
        let Some(value) = value else { return self.take_out(&row.scope, &row.key) };
        let own = self.scopes.get(&row.scope).and_then(|entries| entries.get(&row.key));
        // A new counter of this host expires as set here, until the stored entry says otherwise.
        let expires_at = if stored.is_some() { row.expires_at } else { own.and_then(|own| own.expires_at) };
        if own.is_none_or(|own| own.value != value || own.expires_at != expires_at) {
            self.put(&row.scope, &row.key, value, expires_at);
        }
    }

    /// Removes entries that are neither stored nor waiting to be written.
    pub(super) fn keep_stored(&mut self, is_stored: impl Fn(&str, &str) -> bool) {
        let entries =
            self.scopes.iter().flat_map(|(scope, entries)| entries.keys().map(move |key| (scope, key)));
        let gone = entries.filter(|(scope, key)| {
            !is_stored(scope, key) && !self.changed.contains_key(&((*scope).clone(), (*key).clone()))
        });
        let gone: Vec<_> = gone.map(|(scope, key)| (scope.clone(), key.clone())).collect();
        gone.iter().for_each(|(scope, key)| self.take_out(scope, key));
    }

    /// Starts a new share of each window after an exchange; unwritten hits count against it.
    pub(super) fn begin_share(&mut self) {
        self.own_hits.clear();
        for (place, pending) in &self.changed {
            if let Pending::Hits(slots, _) = pending {
                self.own_hits.insert(place.clone(), slots.clone());
            }
        }
    }

    /// Returns `true` if this host may count one more hit in a window with `hits` hits: its share of the rest
    /// at the last exchange is not used up. The shares add up to half of that rest; the other half covers
    /// hits of other hosts that this host does not know yet.
    pub(super) fn has_share(
        &self,
        scope: &str,
        key: &str,
        hits: u64,
        limit: u64,
        length: i64,
        now: i64,
    ) -> bool {
        let Some(hosts) = self.hosts.as_ref().map(|hosts| hosts.load(Relaxed)).filter(|hosts| *hosts > 1)
        else {
            return true;
        };
        let own = self.own_hits.get(&(scope.to_owned(), key.to_owned()));
        let own = own.map_or(0, |slots| window::hits(slots, length, now));
        let room = limit.saturating_sub(hits.saturating_sub(own));
        own < room.div_ceil(2 * hosts)
    }

    /// Counts a hit of this host in its share of a window.
    pub(super) fn count_share(&mut self, scope: &str, key: &str, hit: Slot, length: i64) {
        if self.hosts.is_some() {
            let slots = self.own_hits.entry((scope.to_owned(), key.to_owned())).or_default();
            window::add(slots, hit, length);
        }
    }

    pub(super) fn put(&mut self, scope: &str, key: &str, value: Json, expires_at: Option<i64>) {
        self.version += 1;
        let bytes = bytes_of(key, &value);
        let entry = Entry { value, bytes, expires_at, version: self.version };
        self.bytes += bytes;
        let entries = match self.scopes.get_mut(scope) {
            Some(entries) => entries,
            None => self.scopes.entry(scope.to_owned()).or_default(),
        };
        match entries.insert(key.to_owned(), entry) {
            Some(before) => self.bytes -= before.bytes,
            None => self.count += 1,
        }
        if let Some(end) = expires_at {
            self.next_end = Some(self.next_end.map_or(end, |next| next.min(end)));
        }
    }

    pub(super) fn remove(&mut self, scope: &str, key: &str) {
        if self.scopes.get(scope).is_some_and(|entries| entries.contains_key(key)) {
            self.take_out(scope, key);
            self.note(scope, key, Pending::Replace, false);
        }
    }

    /// Removes the entries of some scopes, and returns their number.
    pub(super) fn remove_all(&mut self, is_removed: impl Fn(&str) -> bool) -> u64 {
        let scopes = self.scopes.iter().filter(|(scope, _)| is_removed(scope));
        let keys = scopes.flat_map(|(scope, entries)| entries.keys().map(|key| (scope.clone(), key.clone())));
        let keys: Vec<(String, String)> = keys.collect();
        keys.iter().for_each(|(scope, key)| self.remove(scope, key));
        keys.len() as u64
    }

    fn take_out(&mut self, scope: &str, key: &str) {
        let Some(entries) = self.scopes.get_mut(scope) else { return };
        if let Some(entry) = entries.remove(key) {
            self.count -= 1;
            self.bytes -= entry.bytes;
        }
        if entries.is_empty() {
            self.scopes.remove(scope);
        }
    }

    /// Removes all entries, and returns them as `(scope, key, entry)`.
    pub(super) fn take_all(&mut self) -> Vec<(String, String, Entry)> {
        (self.count, self.bytes, self.next_end) = (0, 0, None);
        let scopes = std::mem::take(&mut self.scopes).into_iter();
        let all = scopes.flat_map(|(scope, entries)| {
            entries.into_iter().map(move |(key, entry)| (scope.clone(), key, entry))
        });
        let all: Vec<_> = all.collect();
        let places = all.iter().map(|(scope, key, _)| ((scope.clone(), key.clone()), Pending::Replace));
        self.changed.extend(places);
        all
    }

    /// Removes expired entries.
    pub(super) fn sweep(&mut self, now: i64) {
        if self.next_end.is_none_or(|end| end > now) {
            return;
        }
        let mut over = Vec::new();
        self.next_end = None;
        for (scope, entries) in &self.scopes {
            for (key, entry) in entries {
                match entry.expires_at {
                    Some(end) if end <= now => over.push((scope.clone(), key.clone())),
                    Some(end) => self.next_end = Some(self.next_end.map_or(end, |next| next.min(end))),
                    None => {}
                }
            }
        }
        for (scope, key) in over {
            if self.hosts.is_none() {
                self.remove(&scope, &key);
                continue;
            }
            // The store deletes its own expired entry; another host may have started a new one there.
            self.take_out(&scope, &key);
            let place = (scope, key);
            self.own_hits.remove(&place);
            self.changed.remove(&place);
        }
    }

    pub(super) fn take_changes(&mut self, plugin: &str, now: i64, into: &mut Vec<KvChange>) {
        self.sweep(now);
        for ((scope, key), pending) in std::mem::take(&mut self.changed) {
            let plugin = plugin.to_owned();
            let entry = self.scopes.get(&scope).and_then(|entries| entries.get(&key));
            into.push(match entry {
                Some(Entry { value, expires_at, .. }) => pending.change(KvRow {
                    plugin,
                    value: value.deep_clone(),
                    expires_at: *expires_at,
                    scope,
                    key,
                }),
                None => KvChange::Delete { plugin, scope, key },
            });
        }
    }
}

/// Returns the size of an entry in bytes. Values other than texts count as one byte each.
pub(super) fn bytes_of(key: &str, value: &Json) -> usize {
    let mut left = usize::MAX;
    // No value exceeds this.
    let _ = spend(value, &mut left);
    key.len() + (usize::MAX - left)
}

/// Subtracts the minimum encoded size of a value from the rest.
pub(super) fn spend(value: &Json, left: &mut usize) -> Result<(), KvError> {
    let own = value.as_str().map_or(1, |text| text.len() + 2);
    *left = left.checked_sub(own).ok_or(KvError::Value)?;
    match value {
        Json::Array(array) => array.items().iter().try_for_each(|item| spend(item, left)),
        Json::Object(object) => object.entries().iter().try_for_each(|(key, value)| {
            *left = left.checked_sub(key.len() + 3).ok_or(KvError::Value)?;
            spend(value, left)
        }),
        _ => Ok(()),
    }
}
