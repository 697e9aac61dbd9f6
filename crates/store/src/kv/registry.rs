//! The kv maps of all scripts, and their writes to the store, in which turns share commits.

use super::entries::Maps;
use super::error::KvError;
use super::map::{Clock, KvMap, SeenValue, checked};
use super::pending::Pending;
use crate::clock::now;
use crate::error::{StoreError, StoreErrorKind};
use crate::record::{KvChange, KvNews, KvRow};
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI64, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use valvehouse_core::context::Durable;
use valvehouse_core::error::Error;
use valvehouse_json::Json;

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
    disk: Disk,
}

impl Default for Kv {
    fn default() -> Self {
        Self::with_clock(now)
    }
}

impl Kv {
    /// Creates maps with the rows of a store.
    pub fn load(rows: impl IntoIterator<Item = KvRow>) -> Self {
        let kv = Self::default();
        let now = (kv.clock)();
        for row in rows {
            if row.expires_at.is_none_or(|end| end > now) {
                let maps = kv.of_plugin(&row.plugin);
                maps.lock().put(&row.scope, &row.key, row.value, row.expires_at);
            }
        }
        kv
    }

    /// Creates empty maps with another clock, which returns milliseconds since 1970.
    pub fn with_clock(clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { plugins: RwLock::default(), clock: Arc::new(clock), disk: Disk::default() }
    }

    /// Returns a map of a plugin. An empty map takes no memory and need not be created.
    pub fn map(&self, plugin: &str, scope: impl Into<String>) -> KvMap {
        KvMap { maps: self.of_plugin(plugin), scope: scope.into(), clock: self.clock.clone() }
    }

    /// Returns an independent copy of one plugin's maps, for dry runs.
    #[must_use]
    pub fn copy_of(&self, plugin: &str) -> Self {
        let maps = self.of_plugin(plugin).lock().clone();
        let plugins = RwLock::new(HashMap::from([(plugin.to_owned(), Arc::new(Mutex::new(maps)))]));
        Self { plugins, clock: self.clock.clone(), disk: Disk::default() }
    }

    /// Moves all entries of a plugin to another one; existing entries of that plugin take precedence.
    pub fn move_all(&self, from: &str, to: &str) {
        let entries = self.of_plugin(from).lock().take_all();
        let to = self.of_plugin(to);
        let mut to = to.lock();
        for (scope, key, entry) in entries {
            if to.scopes.get(&scope).is_none_or(|own| !own.contains_key(&key)) {
                to.put(&scope, &key, entry.value, entry.expires_at);
                to.note(&scope, &key, Pending::Replace, true);
            }
        }
    }

    /// Deletes all entries of a plugin.
    pub fn clear(&self, plugin: &str) {
        drop(self.of_plugin(plugin).lock().take_all());
    }

    /// Deletes all entries of some scopes, such as those of a user, and returns their number. The deletions are
    /// written like other changes.
    pub fn clear_scopes(&self, is_cleared: impl Fn(&str) -> bool) -> u64 {
        let plugins = self.plugins.read();
        plugins.values().map(|maps| maps.lock().remove_all(&is_cleared)).sum()
    }

    /// Takes the changes since the last call, one per key.
    pub fn take_changes(&self) -> Vec<KvChange> {
        let now = (self.clock)();
        let plugins = self.plugins.read();
        let mut changes = Vec::new();
        for (plugin, maps) in plugins.iter() {
            maps.lock().take_changes(plugin, now, &mut changes);
        }
        changes
    }

    /// Returns the number of unwritten changes.
    pub fn waiting(&self) -> usize {
        self.plugins.read().values().map(|maps| maps.lock().changed.len()).sum()
    }

    /// Returns changes that could not be written, to be written with the next ones.
    pub fn give_back(&self, changes: &[KvChange]) {
        for change in changes {
            let [plugin, scope, key] = change.place();
            self.of_plugin(plugin).lock().note(scope, key, Pending::of(change), false);
        }
    }

    fn of_plugin(&self, plugin: &str) -> Arc<Mutex<Maps>> {
        if let Some(maps) = self.plugins.read().get(plugin) {
            return maps.clone();
        }
        let new = || {
            let hosts = self.disk.read.is_some().then(|| self.disk.hosts.clone());
            Arc::new(Mutex::new(Maps::of(plugin, hosts)))
        };
        self.plugins.write().entry(plugin.to_owned()).or_insert_with(new).clone()
    }
}

impl std::fmt::Debug for Kv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.plugins.read().iter().map(|(plugin, maps)| (plugin, maps.lock().count)))
            .finish()
    }
}

/// A function that writes changes to a store in one durable transaction.
type Write = Arc<dyn Fn(Vec<KvChange>) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// The minimum time for which the store keeps changes for other hosts, in milliseconds; after a longer pause,
/// everything is read again.
const NEWS_KEPT: i64 = 30 * 60 * 1_000;

/// A function that reads the changes of all hosts since a mark.
type Read = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<KvNews, StoreError>> + Send + Sync>;

/// A function that makes a change if the stored entry is unchanged. Otherwise it returns the stored entry.
type Swap =
    Arc<dyn Fn(KvRow, KvChange) -> BoxFuture<'static, Result<Option<KvRow>, StoreError>> + Send + Sync>;

/// The functions that access the store, and the progress of the writes.
#[derive(Default)]
struct Disk {
    write: Option<Write>,
    read: Option<Read>,
    swap: Option<Swap>,
    /// The mark up to which the changes of other hosts were read.
    mark: AtomicU64,
    /// The time of the last exchange, in milliseconds since 1970.
    exchanged: AtomicI64,
    /// The number of hosts.
    hosts: Arc<AtomicU64>,
    /// The number of the latest durable write.
    requested: AtomicU64,
    /// The number of the latest durable write that is stored.
    flushed: AtomicU64,
    /// The lock of the writer. A turn that has waited for it usually finds its write stored.
    writing: tokio::sync::Mutex<()>,
    failure: Mutex<Option<(Instant, StoreError)>>,
    wake: Notify,
}

impl Kv {
    /// Sets the function that writes the maps. Without one, they stay in memory.
    #[must_use]
    pub fn written_by(
        mut self,
        write: impl Fn(Vec<KvChange>) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync + 'static,
    ) -> Self {
        self.disk.write = Some(Arc::new(write));
        self
    }

    /// Shares the maps with other hosts; `read` returns their changes, which are known up to the mark.
    #[must_use]
    pub fn shared(
        mut self,
        mark: u64,
        read: impl Fn(u64) -> BoxFuture<'static, Result<KvNews, StoreError>> + Send + Sync + 'static,
    ) -> Self {
        self.disk.read = Some(Arc::new(read));
        self.disk.mark = AtomicU64::new(mark);
        self.disk.exchanged = AtomicI64::new((self.clock)());
        let hosts = &self.disk.hosts;
        self.plugins.get_mut().values().for_each(|maps| maps.lock().hosts = Some(hosts.clone()));
        self
    }

    /// Sets the function that replaces values derived from others ([`Kv::swap`]).
    #[must_use]
    pub fn swapped_by(
        mut self,
        swap: impl Fn(KvRow, KvChange) -> BoxFuture<'static, Result<Option<KvRow>, StoreError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.disk.swap = Some(Arc::new(swap));
        self
    }

    /// Returns the number of hosts that share the maps at the last exchange; 0 if unknown.
    pub fn hosts(&self) -> u64 {
        self.disk.hosts.load(Relaxed)
    }

    /// Returns `true` if other hosts may replace the same values, so that [`Kv::swap`] has to ask the store.
    pub fn is_shared(&self) -> bool {
        self.disk.swap.is_some()
    }

    /// Replaces the value of a key with `after`; null deletes the key. With shared maps, the store decides.
    /// Returns `false` if another turn of any host changed the value first: read it again. A `ttl` starts
    /// now; without one, the expiry is unchanged.
    ///
    /// During an outage of the store, this host decides alone, and the value is written later
    /// ([`Kv::want_flush`]).
    ///
    /// # Errors
    /// Returns an error if the value exceeds a limit, or the store rejects it.
    pub async fn swap(
        &self,
        map: &KvMap,
        key: &str,
        seen: &SeenValue,
        after: &Json,
        ttl: Option<Duration>,
    ) -> Result<bool, KvError> {
        let after = checked(key, after)?;
        let Some(swap) = &self.disk.swap else { return map.put_if(key, seen, after, ttl) };
        // No other change of this host is being written meanwhile, as in an exchange.
        let _one = self.disk.writing.lock().await;
        let Some((before, change)) = map.replacement(key, seen, &after, ttl)? else { return Ok(false) };
        // Pending changes are written first, because the value may depend on them.
        let swapped = match self.write_changes().await {
            Ok(()) => swap(before.clone(), change.clone()).await,
            Err(error) => Err(error),
        };
        let (row, is_written) = match (swapped, change) {
            (Ok(None), KvChange::Set(row)) => (row, true),
            (Ok(None), _) => (KvRow { value: Json::Null, expires_at: None, ..before }, true),
            (Ok(Some(stored)), _) => (stored, false),
            (Err(error), _) if error.kind == StoreErrorKind::Unreachable => {
                return map.put_if(key, seen, after, ttl);
            }
            (Err(error), _) => {
                return Err(KvError::Store(format!("cannot {}: {}", error.doing, error.cause)));
            }
        };
        map.receive(row);
        Ok(is_written)
    }

    /// Writes all changes, and applies those of other hosts.
    ///
    /// # Errors
    /// Returns the error of the store. Unwritten changes stay in memory and are part of the next commit.
    pub async fn exchange(&self) -> Result<(), StoreError> {
        // No change of this host is being written meanwhile: each is either stored or pending.
        let _one = self.disk.writing.lock().await;
        self.write_changes().await?;
        let Some(read) = &self.disk.read else { return Ok(()) };
        let now = (self.clock)();
        let is_known = now.saturating_sub(self.disk.exchanged.load(SeqCst)) < NEWS_KEPT;
        let since = if is_known { self.disk.mark.load(SeqCst) } else { 0 };
        let news = read(since).await?;
        if since == 0 && news.mark > 0 {
            let stored: HashSet<_> =
                news.rows.iter().map(|row| [row.plugin.as_str(), &row.scope, &row.key]).collect();
            for (plugin, maps) in self.plugins.read().iter() {
                maps.lock().keep_stored(|scope, key| stored.contains(&[plugin.as_str(), scope, key]));
            }
        }
        for row in news.rows {
            let maps = self.of_plugin(&row.plugin);
            maps.lock().receive(row, now);
        }
        self.disk.hosts.store(news.hosts, SeqCst);
        self.disk.mark.store(news.mark, SeqCst);
        self.disk.exchanged.store(now, SeqCst);
        self.plugins.read().values().for_each(|maps| maps.lock().begin_share());
        Ok(())
    }

    /// Returns the number to pass to [`Kv::flush_up_to`] for all writes made so far; `None` if maps are not
    /// written. Wakes [`Kv::flush_requested`].
    pub fn want_flush(&self) -> Option<u64> {
        self.disk.write.as_ref()?;
        // The number is taken after the change, so that the writer of this number finds the change.
        let write = self.disk.requested.fetch_add(1, SeqCst) + 1;
        self.disk.wake.notify_one();
        Some(write)
    }

    /// Waits until a durable write is requested.
    pub async fn flush_requested(&self) {
        self.disk.wake.notified().await;
    }

    /// Returns the reason why the last write failed; `None` after a success.
    pub fn failure(&self) -> Option<StoreError> {
        self.disk.failure.lock().as_ref().map(|(_, error)| error.clone())
    }

    /// Waits until the writes up to this number are stored, in one commit with those of other turns.
    ///
    /// # Errors
    /// Returns the error of the store if it rejects the writes. They stay in memory and are part of the next
    /// commit.
    pub async fn flush_up_to(&self, write: u64) -> Result<(), StoreError> {
        if self.disk.flushed.load(SeqCst) >= write {
            return Ok(());
        }
        let since = Instant::now();
        let _one = self.disk.writing.lock().await;
        if self.disk.flushed.load(SeqCst) >= write {
            return Ok(());
        }
        // A store that has just failed for another turn is not tried again.
        if let Some((_, error)) = self.disk.failure.lock().as_ref().filter(|(at, _)| *at >= since) {
            return Err(error.clone());
        }
        self.write_changes().await
    }

    /// Writes all changes, durable or not.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Kv::flush_up_to`].
    pub async fn flush_all(&self) -> Result<(), StoreError> {
        let _one = self.disk.writing.lock().await;
        self.write_changes().await
    }

    async fn write_changes(&self) -> Result<(), StoreError> {
        let Some(write) = &self.disk.write else { return Ok(()) };
        let requested = self.disk.requested.load(SeqCst);
        let mut batch = ChangeBatch { kv: self, changes: self.take_changes() };
        if !batch.changes.is_empty()
            && let Err(error) = write(batch.changes.clone()).await
        {
            *self.disk.failure.lock() = Some((Instant::now(), error.clone()));
            return Err(error);
        }
        batch.changes.clear();
        self.disk.flushed.fetch_max(requested, SeqCst);
        *self.disk.failure.lock() = None;
        Ok(())
    }
}

impl Durable for Kv {
    fn flush(&self, up_to: u64) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.flush_up_to(up_to).await.map_err(Error::from) })
    }
}

/// Changes that are being written. They are returned to the maps if the write fails or is dropped.
struct ChangeBatch<'a> {
    kv: &'a Kv,
    changes: Vec<KvChange>,
}

impl Drop for ChangeBatch<'_> {
    fn drop(&mut self) {
        self.kv.give_back(&self.changes);
    }
}
