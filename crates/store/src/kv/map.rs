//! A kv map as a script uses it.

use super::entries::{Maps, spend};
use super::error::{KvError, LARGEST_VALUE, MAX_KEY_BYTES, MAX_TRIES};
use super::pending::{Pending, sum};
use super::window::{self, Slot, Window};
use crate::record::{KvChange, KvRow};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

/// A clock that returns milliseconds since 1970.
pub(super) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A kv map of a script: one for all users, or for one user or chat.
///
/// Every method is atomic. Values are copied.
pub struct KvMap {
    pub(super) maps: Arc<Mutex<Maps>>,
    pub(super) scope: String,
    pub(super) clock: Clock,
}

/// The value of a key, for its replacement by a value derived from it.
#[derive(Debug, Clone)]
pub struct SeenValue {
    /// A copy of the value; null if there is none.
    pub value: Json,
    /// The number of its last write.
    version: u64,
    expires_at: Option<i64>,
}

impl KvMap {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Json> {
        let (maps, now) = self.open();
        maps.entry(&self.scope, key, now).map(|entry| entry.value.deep_clone())
    }

    /// Sets a key. The entry expires after `ttl`; without one, it does not expire. Null deletes the key.
    ///
    /// # Errors
    /// Returns an error if the key or the value exceeds its limit, or if the maps of the plugin are full.
    pub fn set(&self, key: &str, value: &Json, ttl: Option<Duration>) -> Result<(), KvError> {
        let value = checked(key, value)?;
        let (mut maps, now) = self.open();
        maps.write(&self.scope, key, value, ttl.map(|ttl| end(now, ttl)), now, Pending::Replace)
    }

    /// Deletes a key. Returns `true` if it existed.
    pub fn delete(&self, key: &str) -> bool {
        let (mut maps, now) = self.open();
        let was_there = maps.entry(&self.scope, key, now).is_some();
        maps.remove(&self.scope, key);
        was_there
    }

    /// Increments the number of a key and returns the new number. A new counter starts at 0, and `ttl` applies to
    /// new counters only.
    ///
    /// # Errors
    /// Returns an error if the value of the key or `by` is not a number, or if a limit is exceeded.
    pub fn incr(&self, key: &str, by: &Json, ttl: Option<Duration>) -> Result<Json, KvError> {
        let by = checked(key, by)?;
        let (mut maps, now) = self.open();
        let (before, expires_at) = match maps.entry(&self.scope, key, now) {
            Some(entry) => (entry.value.clone(), entry.expires_at),
            None => (Json::from(0_i64), ttl.map(|ttl| end(now, ttl))),
        };
        let sum = sum(&before, &by)?;
        maps.write(&self.scope, key, sum.clone(), expires_at, now, Pending::Add(by))?;
        Ok(sum)
    }

    /// Returns the keys with this prefix, in alphabetical order.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let (maps, now) = self.open();
        let entries = maps.scopes.get(&self.scope).into_iter().flatten();
        let mut keys: Vec<String> = entries
            .filter(|(key, entry)| key.starts_with(prefix) && !entry.is_over(now))
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort_unstable();
        keys
    }

    /// Replaces the value of a key with the result of `change`. Null stands for a missing key, and a result
    /// of null deletes the key.
    ///
    /// No lock is held while `change` runs. If another turn changed the value meanwhile, `change` runs again
    /// with the new value. A `ttl` starts now; without one, the expiry is unchanged.
    ///
    /// # Errors
    /// Returns the error of `change`, or an error if a limit is exceeded or the value changes too often.
    pub fn update<E: From<KvError>>(
        &self,
        key: &str,
        ttl: Option<Duration>,
        mut change: impl FnMut(Json) -> Result<Json, E>,
    ) -> Result<Json, E> {
        for _ in 0..MAX_TRIES {
            let seen = self.look(key);
            let after = checked(key, &change(seen.value.deep_clone())?)?;
            if self.put_if(key, &seen, after.clone(), ttl)? {
                return Ok(after.deep_clone());
            }
        }
        Err(KvError::Contended.into())
    }

    /// Counts one event unless `limit` is reached within the last `length`. With several hosts, each counts against
    /// its share of what was left at the last exchange, and rejects more until the next one.
    ///
    /// # Errors
    /// Returns an error if the length, the limit or the key is out of range.
    pub fn window(&self, key: &str, length: Duration, limit: u64) -> Result<Window, KvError> {
        checked(key, &Json::Null)?;
        let (mut maps, now) = self.open();
        let before = Json::from(maps.entry(&self.scope, key, now).map(|entry| entry.value.clone()));
        let length = window::ms(length);
        let (window, slots) = window::count(&before, now, length, limit).ok_or(KvError::NoWindow)?;
        if !window.allowed {
            return Ok(window);
        }
        if !maps.has_share(&self.scope, key, window.count - 1, limit, length, now) {
            // The next exchange follows within a second.
            return Ok(Window { allowed: false, count: window.count - 1, retry_after: 1 });
        }
        let hit = Slot { last: now, hits: 1 };
        let end = now.saturating_add(length);
        maps.write(&self.scope, key, slots, Some(end), now, Pending::Hits(vec![hit], length))?;
        maps.count_share(&self.scope, key, hit, length);
        Ok(window)
    }

    /// Locks the maps and returns them with the time. The clock is read after locking, so that no entry is
    /// newer than it.
    fn open(&self) -> (MutexGuard<'_, Maps>, i64) {
        let maps = self.maps.lock();
        let now = (self.clock)();
        (maps, now)
    }

    /// Returns the value of a key for [`Kv::swap`](super::Kv::swap).
    pub fn look(&self, key: &str) -> SeenValue {
        let (maps, now) = self.open();
        match maps.entry(&self.scope, key, now) {
            Some(entry) => SeenValue {
                value: entry.value.deep_clone(),
                version: entry.version,
                expires_at: entry.expires_at,
            },
            None => SeenValue { value: Json::Null, version: 0, expires_at: None },
        }
    }

    /// Replaces a value. Returns `false` if another turn changed it first.
    pub(super) fn put_if(
        &self,
        key: &str,
        seen: &SeenValue,
        after: Json,
        ttl: Option<Duration>,
    ) -> Result<bool, KvError> {
        let (mut maps, now) = self.open();
        if !maps.is_as_seen(&self.scope, key, seen.version, now) {
            return Ok(false);
        }
        let expires_at = ttl.map(|ttl| end(now, ttl)).or(seen.expires_at);
        maps.write(&self.scope, key, after, expires_at, now, Pending::Replace)?;
        Ok(true)
    }

    /// Returns the row of a value and the change that replaces it; `None` if another turn of this host
    /// changed it first.
    pub(super) fn replacement(
        &self,
        key: &str,
        seen: &SeenValue,
        after: &Json,
        ttl: Option<Duration>,
    ) -> Result<Option<(KvRow, KvChange)>, KvError> {
        let (mut maps, now) = self.open();
        if !maps.is_as_seen(&self.scope, key, seen.version, now) {
            return Ok(None);
        }
        if !after.is_null() {
            maps.make_room(&self.scope, key, after, now)?;
        }
        let (plugin, scope, key) = (maps.plugin.to_string(), self.scope.clone(), key.to_owned());
        let change = if after.is_null() {
            KvChange::Delete { plugin: plugin.clone(), scope: scope.clone(), key: key.clone() }
        } else {
            let (plugin, scope, key) = (plugin.clone(), scope.clone(), key.clone());
            let expires_at = ttl.map(|ttl| end(now, ttl)).or(seen.expires_at);
            KvChange::Set(KvRow { plugin, scope, key, value: after.clone(), expires_at })
        };
        let before = KvRow { plugin, scope, key, value: seen.value.clone(), expires_at: seen.expires_at };
        Ok(Some((before, change)))
    }

    /// Applies a stored entry.
    pub(super) fn receive(&self, row: KvRow) {
        let (mut maps, now) = self.open();
        maps.receive(row, now);
    }
}

fn end(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
}

/// Checks a key and returns a copy of the value, or an error if a limit is exceeded.
pub(super) fn checked(key: &str, value: &Json) -> Result<Json, KvError> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(KvError::Key(key.len()));
    }
    if !matches!(value, Json::Text(_) | Json::Array(_) | Json::Object(_)) {
        return Ok(value.clone());
    }
    // Checked before encoding, because shared containers can make the text of a small value huge.
    let mut left = LARGEST_VALUE;
    spend(value, &mut left)?;
    let text = value.encode().map_err(|error| KvError::Nested(error.to_string()))?;
    if text.len() > LARGEST_VALUE {
        return Err(KvError::Value);
    }
    Ok(value.deep_clone())
}
