//! The maps that scripts keep for themselves: the truth in memory, written behind.
//!
//! Scripts read and change [`Kv`] without waiting for a disk. The end of a turn waits until its durable
//! writes are there ([`Kv::flush_up_to`]), in one commit with those of other turns; the others are written
//! from time to time ([`Kv::flush_all`]). What many turns did to one key in between is one change.

mod flush;
mod window;

pub use window::Window;

use super::{KvChange, KvRow};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::{Json, Number};

/// Longest key, in bytes.
pub const LONGEST_KEY: usize = 512;
/// Largest value, in bytes of its JSON text.
pub const LARGEST_VALUE: usize = 64 * 1024;
/// Most keys of one plugin, in all its maps together.
pub const MOST_KEYS: usize = 10_000;
/// What one plugin's keys and values may take together, in bytes: all of them are held in memory.
const MOST_BYTES: usize = 16 << 20;
/// How often an update is tried again because another turn was faster.
const MOST_TRIES: usize = 1_000;

/// Why a map did not take something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// There is no such key.
    #[error("a key is a text of 1 to {LONGEST_KEY} bytes, this one has {0}")]
    Key(usize),
    /// The value's text is too long.
    #[error("a value may take {} KiB as JSON, this one takes more; keep parts of it under keys of their own", LARGEST_VALUE / 1024)]
    Value,
    /// The value is nested too deep.
    #[error("{0}")]
    Nested(String),
    /// The plugin has too many keys.
    #[error(
        "a script may keep {MOST_KEYS} keys and has them all; delete some, or let them end by themselves with a ttl"
    )]
    Full,
    /// The plugin keeps too much.
    #[error(
        "a script may keep {} MiB and keeps them all; delete something, or let it end by itself with a ttl",
        MOST_BYTES >> 20
    )]
    Heavy,
    /// Something else than a number was to be counted up.
    #[error("the value is {0}, which cannot be counted up")]
    NoNumber(&'static str),
    /// The number has left its range.
    #[error("the number would leave its range")]
    Overflow,
    /// Something else than a window stands under the key.
    #[error("another value stands under this key; count under a key of its own")]
    NoWindow,
    /// Other turns change the key all the time.
    #[error("other turns changed the value {MOST_TRIES} times meanwhile; use `incr`, or keys of their own")]
    Contended,
}

/// The time in milliseconds since 1970.
type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The maps of all scripts.
///
/// ```
/// use valvehouse_store::Kv;
/// let kv = Kv::default();
/// let map = kv.map("turn_limit", "user/ann");
/// map.incr("turns", &1_i64.into(), None).unwrap();
/// assert_eq!(map.get("turns"), Some(1_i64.into()));
/// assert_eq!(kv.take_changes().len(), 1);
/// ```
pub struct Kv {
    plugins: RwLock<HashMap<String, Arc<Mutex<Maps>>>>,
    clock: Clock,
    disk: flush::Disk,
}

impl Default for Kv {
    fn default() -> Self {
        Self::with_clock(super::now)
    }
}

impl Kv {
    /// What a store had kept.
    pub fn load(rows: impl IntoIterator<Item = KvRow>) -> Self {
        let kv = Self::default();
        let now = (kv.clock)();
        for row in rows {
            if row.expires_at.is_none_or(|end| end > now) {
                let maps = kv.of_plugin(&row.plugin);
                maps.lock().put(&row.scope, &row.key, row.value, row.expires_at);
            }
        }
        let plugins = kv.plugins.read();
        plugins.values().for_each(|maps| maps.lock().changed.clear());
        drop(plugins);
        kv
    }

    /// Empty maps that go by another clock: milliseconds since 1970.
    pub fn with_clock(clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { plugins: RwLock::default(), clock: Arc::new(clock), disk: flush::Disk::default() }
    }

    /// One map of a plugin. There is nothing to create: an empty map takes no room.
    pub fn map(&self, plugin: &str, scope: impl Into<String>) -> KvMap {
        KvMap { maps: self.of_plugin(plugin), scope: scope.into(), clock: self.clock.clone() }
    }

    /// The maps of one plugin as they are now, for who tries something out: what is done to them stays there.
    #[must_use]
    pub fn copy_of(&self, plugin: &str) -> Self {
        let maps = self.of_plugin(plugin).lock().clone();
        let plugins = RwLock::new(HashMap::from([(plugin.to_owned(), Arc::new(Mutex::new(maps)))]));
        Self { plugins, clock: self.clock.clone(), disk: flush::Disk::default() }
    }

    /// Gives all maps of a plugin to another one, whose own entries stay.
    pub fn move_all(&self, from: &str, to: &str) {
        let entries = self.of_plugin(from).lock().take_all();
        let to = self.of_plugin(to);
        let mut to = to.lock();
        for (scope, key, entry) in entries {
            if to.scopes.get(&scope).is_none_or(|own| !own.contains_key(&key)) {
                to.put(&scope, &key, entry.value, entry.expires_at);
            }
        }
    }

    /// Takes out all entries of a plugin.
    pub fn clear(&self, plugin: &str) {
        drop(self.of_plugin(plugin).lock().take_all());
    }

    /// What has changed since this was last asked, each key once.
    pub fn take_changes(&self) -> Vec<KvChange> {
        let now = (self.clock)();
        let plugins = self.plugins.read();
        let mut changes = Vec::new();
        for (plugin, maps) in plugins.iter() {
            maps.lock().take_changes(plugin, now, &mut changes);
        }
        changes
    }

    /// How many changes wait to be written.
    pub fn waiting(&self) -> usize {
        self.plugins.read().values().map(|maps| maps.lock().changed.len()).sum()
    }

    /// These changes could not be written: they will be among the next, as they stand then.
    pub fn give_back(&self, changes: &[KvChange]) {
        for change in changes {
            let (KvChange::Set(KvRow { plugin, scope, key, .. }) | KvChange::Delete { plugin, scope, key }) =
                change;
            self.of_plugin(plugin).lock().changed.insert((scope.clone(), key.clone()));
        }
    }

    fn of_plugin(&self, plugin: &str) -> Arc<Mutex<Maps>> {
        if let Some(maps) = self.plugins.read().get(plugin) {
            return maps.clone();
        }
        self.plugins.write().entry(plugin.to_owned()).or_default().clone()
    }
}

impl std::fmt::Debug for Kv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.plugins.read().iter().map(|(plugin, maps)| (plugin, maps.lock().count)))
            .finish()
    }
}

/// One map: a script's own, or its map for one user or chat.
///
/// Every method is atomic. Values are copied in and out.
pub struct KvMap {
    maps: Arc<Mutex<Maps>>,
    scope: String,
    clock: Clock,
}

impl KvMap {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Json> {
        let (maps, now) = self.open();
        maps.entry(&self.scope, key, now).map(|entry| entry.value.copy())
    }

    /// Sets a key, for this long or for ever. Null deletes.
    pub fn set(&self, key: &str, value: &Json, ttl: Option<Duration>) -> Result<(), KvError> {
        let value = checked(key, value)?;
        let (mut maps, now) = self.open();
        maps.write(&self.scope, key, value, ttl.map(|ttl| end(now, ttl)), now)
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
        maps.write(&self.scope, key, sum.clone(), expires_at, now)?;
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
        for _ in 0..MOST_TRIES {
            let (before, version, expires_at) = self.look(key);
            let after = checked(key, &change(before)?)?;
            let (mut maps, now) = self.open();
            let expires_at = ttl.map(|ttl| end(now, ttl)).or(expires_at);
            if maps.entry(&self.scope, key, now).map_or(0, |entry| entry.version) == version {
                maps.write(&self.scope, key, after.clone(), expires_at, now)?;
                return Ok(after.copy());
            }
        }
        Err(KvError::Contended.into())
    }

    /// Counts one more within the last `length`, unless `limit` is reached.
    pub fn window(&self, key: &str, length: Duration, limit: u64) -> Result<Window, KvError> {
        checked(key, &Json::Null)?;
        let (mut maps, now) = self.open();
        let before = maps.entry(&self.scope, key, now).map(|entry| entry.value.clone()).unwrap_or_default();
        let (window, slots) = window::count(&before, now, length, limit).ok_or(KvError::NoWindow)?;
        if window.allowed {
            maps.write(&self.scope, key, slots, Some(end(now, length)), now)?;
        }
        Ok(window)
    }

    /// The maps and the time. The clock is read behind the lock, so that what one turn sees never
    /// lies in its future.
    fn open(&self) -> (MutexGuard<'_, Maps>, i64) {
        let maps = self.maps.lock();
        let now = (self.clock)();
        (maps, now)
    }

    /// A copy of a value, the number of its last write, and its end.
    fn look(&self, key: &str) -> (Json, u64, Option<i64>) {
        let (maps, now) = self.open();
        match maps.entry(&self.scope, key, now) {
            Some(entry) => (entry.value.copy(), entry.version, entry.expires_at),
            None => (Json::Null, 0, None),
        }
    }
}

/// The maps of one plugin. Values are replaced whole, so a clone is a copy.
#[derive(Default, Clone)]
struct Maps {
    scopes: HashMap<String, HashMap<String, Entry>>,
    count: usize,
    bytes: usize,
    /// The number of the last write; every write has its own.
    version: u64,
    changed: BTreeSet<(String, String)>,
    /// No entry ends before this.
    next_end: Option<i64>,
}

#[derive(Clone)]
struct Entry {
    value: Json,
    /// What it takes, its key included.
    bytes: usize,
    expires_at: Option<i64>,
    version: u64,
}

impl Entry {
    fn is_over(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

impl Maps {
    fn entry(&self, scope: &str, key: &str, now: i64) -> Option<&Entry> {
        self.scopes.get(scope)?.get(key).filter(|entry| !entry.is_over(now))
    }

    fn write(
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
        if (before.is_none() && self.count >= MOST_KEYS) || self.bytes + grows > MOST_BYTES {
            self.sweep(now);
        }
        if before.is_none() && self.count >= MOST_KEYS {
            return Err(KvError::Full);
        }
        if grows > 0 && self.bytes + grows > MOST_BYTES {
            return Err(KvError::Heavy);
        }
        self.put(scope, key, value, expires_at);
        Ok(())
    }

    fn put(&mut self, scope: &str, key: &str, value: Json, expires_at: Option<i64>) {
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

    fn remove(&mut self, scope: &str, key: &str) {
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
    fn take_all(&mut self) -> Vec<(String, String, Entry)> {
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
    fn sweep(&mut self, now: i64) {
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

    fn take_changes(&mut self, plugin: &str, now: i64, into: &mut Vec<KvChange>) {
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

fn end(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
}

/// What an entry takes, counting a little for each value that is neither text nor key.
fn bytes_of(key: &str, value: &Json) -> usize {
    let mut left = usize::MAX;
    // Nothing takes more than that.
    let _ = spend(value, &mut left);
    key.len() + (usize::MAX - left)
}

/// A key that may be used, and a copy of a value that may be kept.
fn checked(key: &str, value: &Json) -> Result<Json, KvError> {
    if key.is_empty() || key.len() > LONGEST_KEY {
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
    Ok(value.copy())
}

/// Takes what a value needs at least off what is left.
fn spend(value: &Json, left: &mut usize) -> Result<(), KvError> {
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

fn sum(a: &Json, b: &Json) -> Result<Json, KvError> {
    let number = |value: &Json| match value {
        Json::Number(number) => Ok(number.clone()),
        other => Err(KvError::NoNumber(other.kind())),
    };
    match (number(a)?, number(b)?) {
        (Number::Int(a), Number::Int(b)) => a.checked_add(b).map(Json::from).ok_or(KvError::Overflow),
        (a, b) => match a.as_f64() + b.as_f64() {
            sum if sum.is_finite() => Ok(sum.into()),
            _ => Err(KvError::Overflow),
        },
    }
}

#[cfg(test)]
mod tests;
