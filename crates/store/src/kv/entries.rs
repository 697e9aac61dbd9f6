//! The entries of one plugin: what they take, when they end, which have changed.

use super::error::{KvError, MAX_BYTES, MAX_KEYS};
use crate::record::{KvChange, KvRow};
use std::collections::{BTreeSet, HashMap};
use valvehouse_json::Json;

/// The maps of one plugin. Values are replaced whole, so a clone is a copy.
#[derive(Default, Clone)]
pub(super) struct Maps {
    pub(super) scopes: HashMap<String, HashMap<String, Entry>>,
    pub(super) count: usize,
    bytes: usize,
    /// The number of the last write; every write has its own.
    pub(super) version: u64,
    pub(super) changed: BTreeSet<(String, String)>,
    /// No entry ends before this.
    next_end: Option<i64>,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Json,
    /// Its size in bytes, its key included.
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
    pub(super) fn entry(&self, scope: &str, key: &str, now: i64) -> Option<&Entry> {
        self.scopes.get(scope)?.get(key).filter(|entry| !entry.is_over(now))
    }

    pub(super) fn write(
        &mut self,
        scope: &str,
        key: &str,
        value: Json,
        expires_at: Option<i64>,
        now: i64,
    ) -> Result<(), KvError> {
        if value.is_null() {
            self.remove(scope, key);
            return Ok(());
        }
        let before = self.scopes.get(scope).and_then(|entries| entries.get(key)).map(|entry| entry.bytes);
        let grows = (bytes_of(key, &value)).saturating_sub(before.unwrap_or(0));
        if (before.is_none() && self.count >= MAX_KEYS) || self.bytes + grows > MAX_BYTES {
            self.sweep(now);
        }
        if before.is_none() && self.count >= MAX_KEYS {
            return Err(KvError::Full);
        }
        if grows > 0 && self.bytes + grows > MAX_BYTES {
            return Err(KvError::Heavy);
        }
        self.put(scope, key, value, expires_at);
        Ok(())
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
        self.changed.insert((scope.to_owned(), key.to_owned()));
    }

    pub(super) fn remove(&mut self, scope: &str, key: &str) {
        let Some(entries) = self.scopes.get_mut(scope) else { return };
        if let Some(entry) = entries.remove(key) {
            self.count -= 1;
            self.bytes -= entry.bytes;
            self.changed.insert((scope.to_owned(), key.to_owned()));
        }
        if entries.is_empty() {
            self.scopes.remove(scope);
        }
    }

    /// Takes out everything, as `(scope, key, entry)`.
    pub(super) fn take_all(&mut self) -> Vec<(String, String, Entry)> {
        (self.count, self.bytes, self.next_end) = (0, 0, None);
        let scopes = std::mem::take(&mut self.scopes).into_iter();
        let all = scopes.flat_map(|(scope, entries)| {
            entries.into_iter().map(move |(key, entry)| (scope.clone(), key, entry))
        });
        let all: Vec<_> = all.collect();
        self.changed.extend(all.iter().map(|(scope, key, _)| (scope.clone(), key.clone())));
        all
    }

    /// Takes out what is over.
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
        over.iter().for_each(|(scope, key)| self.remove(scope, key));
    }

    pub(super) fn take_changes(&mut self, plugin: &str, now: i64, into: &mut Vec<KvChange>) {
        self.sweep(now);
        for (scope, key) in std::mem::take(&mut self.changed) {
            let plugin = plugin.to_owned();
            let entry = self.scopes.get(&scope).and_then(|entries| entries.get(&key));
            into.push(match entry {
                Some(Entry { value, expires_at, .. }) => {
                    KvChange::Set(KvRow { plugin, value: value.copy(), expires_at: *expires_at, scope, key })
                }
                None => KvChange::Delete { plugin, scope, key },
            });
        }
    }
}

/// Returns the size of an entry, counting a little for each value that is neither text nor key.
pub(super) fn bytes_of(key: &str, value: &Json) -> usize {
    let mut left = usize::MAX;
    // Nothing takes more than that.
    let _ = spend(value, &mut left);
    key.len() + (usize::MAX - left)
}

/// Takes what a value needs at least off what is left.
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
