//! One map, as a script uses it.

use super::entries::{Maps, spend};
use super::error::{KvError, LARGEST_VALUE, MAX_KEY_BYTES, MAX_TRIES};
use super::pending::{Pending, sum};
use super::window::{self, Slot, Window};
use crate::record::{KvChange, KvRow};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

/// The time in milliseconds since 1970.
pub(super) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// One map: a script's own, or its map for one user or chat.
///
/// Every method is atomic. Values are copied in and out.
pub struct KvMap {
    pub(super) maps: Arc<Mutex<Maps>>,
    pub(super) scope: String,
    pub(super) clock: Clock,
}

/// A value as it was seen, to be replaced by one that is made of it.
#[derive(Debug, Clone)]
pub struct SeenValue {
    /// A copy of the value; null for none.
    pub value: Json,
    /// The number of its last write.
    version: u64,
    expires_at: Option<i64>,
}

impl KvMap {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Json> {
        let (maps, now) = self.open();
        maps.entry(&self.scope, key, now).map(|entry| entry.value.deep_clone())
    }

    /// Sets a key, for this long or for ever. Null deletes.
    pub fn set(&self, key: &str, value: &Json, ttl: Option<Duration>) -> Result<(), KvError> {
        let value = checked(key, value)?;
        let (mut maps, now) = self.open();
        maps.write(&self.scope, key, value, ttl.map(|ttl| end(now, ttl)), now, Pending::Replace)
    }

    /// Takes a key out; true when it was there.
    pub fn delete(&self, key: &str) -> bool {
        let (mut maps, now) = self.open();
        let was_there = maps.entry(&self.scope, key, now).is_some();
        maps.remove(&self.scope, key);
        was_there
    }

    /// Counts a key up and gives the new number. A new counter starts at 0, and only then its time
    /// begins to run.
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

    /// The keys that begin with these letters, in alphabetical order.
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

    /// Replaces a value by what `change` makes of it; null when there is none, null deletes.
    ///
    /// No lock is held while `change` runs. When another turn was faster it runs again, on the value
    /// of then. With a `ttl` the time runs from now, without one it goes on running.
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

    /// Counts one more within the last `length`, unless `limit` is reached. Of several hosts each counts its share of what
    /// was left at the last exchange, and refuses more for the moment.
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
            // The next exchange is less than a second away.
            return Ok(Window { allowed: false, count: window.count - 1, retry_after: 1 });
        }
        let hit = Slot { last: now, hits: 1 };
        let end = now.saturating_add(length);
        maps.write(&self.scope, key, slots, Some(end), now, Pending::Hits(vec![hit], length))?;
        maps.count_share(&self.scope, key, hit, length);
        Ok(window)
    }

    /// The maps and the time. The clock is read behind the lock, so that what one turn sees never
    /// lies in its future.
    fn open(&self) -> (MutexGuard<'_, Maps>, i64) {
        let maps = self.maps.lock();
        let now = (self.clock)();
        (maps, now)
    }

    /// Returns the value of a key, to be replaced by `Kv::swap`.
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

    /// Puts a value in the place of one that was seen. Returns `false` if another turn was faster.
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

    /// Returns the row of a value that was seen, and the change that puts another one there; `None` if another turn of this
    /// host was faster.
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

    /// Takes over how an entry is stored.
    pub(super) fn receive(&self, row: KvRow) {
        let (mut maps, now) = self.open();
        maps.receive(row, now);
    }
}

fn end(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
}

/// A key that may be used, and a copy of a value that may be kept.
pub(super) fn checked(key: &str, value: &Json) -> Result<Json, KvError> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(KvError::Key(key.len()));
    }
    if !matches!(value, Json::Text(_) | Json::Array(_) | Json::Object(_)) {
        return Ok(value.clone());
    }
    // Before it is written out: shared containers may make a huge text of a small value.
    let mut left = LARGEST_VALUE;
    spend(value, &mut left)?;
    let text = value.encode().map_err(|error| KvError::Nested(error.to_string()))?;
    if text.len() > LARGEST_VALUE {
        return Err(KvError::Value);
    }
    Ok(value.deep_clone())
}
