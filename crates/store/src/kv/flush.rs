//! Bringing the maps to disk: writers wait together for one commit.

use super::Kv;
use crate::{KvChange, StoreError};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;
use tokio::sync::Notify;
use valvehouse_core::context::Durable;
use valvehouse_core::fault::Fault;

/// Writes changes to a store; all of them or none, on disk when it returns.
type Write = Arc<dyn Fn(Vec<KvChange>) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// The destination of the maps' writes, and their progress.
#[derive(Default)]
pub(super) struct Disk {
    write: Option<Write>,
    /// The number of the latest durable write.
    wanted: AtomicU64,
    /// The writes up to this number are on disk.
    flushed: AtomicU64,
    /// Held by the one that writes; whoever waits for it finds its own write done, as a rule.
    writing: tokio::sync::Mutex<()>,
    failure: Mutex<Option<(Instant, StoreError)>>,
    wake: Notify,
}

impl Kv {
    /// The same maps, written by this function. Maps without one stay in memory.
    #[must_use]
    pub fn written_by(
        mut self,
        write: impl Fn(Vec<KvChange>) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync + 'static,
    ) -> Self {
        self.disk.write = Some(Arc::new(write));
        self
    }

    /// Returns the number under which to wait for all writes made so far; `None` where nothing is written
    /// to disk. Wakes the one who waits in [`Kv::wanted`].
    pub fn want_flush(&self) -> Option<u64> {
        self.disk.write.as_ref()?;
        // After the change itself: whoever reads this number finds the change.
        let write = self.disk.wanted.fetch_add(1, SeqCst) + 1;
        self.disk.wake.notify_one();
        Some(write)
    }

    /// Waits until somebody wants a durable write.
    pub async fn wanted(&self) {
        self.disk.wake.notified().await;
    }

    /// Returns why the last attempt to write failed, until one succeeds.
    pub fn failure(&self) -> Option<StoreError> {
        self.disk.failure.lock().as_ref().map(|(_, error)| error.clone())
    }

    /// Waits until the writes up to this number are on disk, in one commit with those of others.
    ///
    /// # Errors
    /// Returns the error of the store if it refuses the writes. They stay in memory and are part of the next commit.
    pub async fn flush_up_to(&self, write: u64) -> Result<(), StoreError> {
        if self.disk.flushed.load(SeqCst) >= write {
            return Ok(());
        }
        let since = Instant::now();
        let _one = self.disk.writing.lock().await;
        if self.disk.flushed.load(SeqCst) >= write {
            return Ok(());
        }
        // A store that has just refused another's write is not kept waiting for.
        if let Some((_, error)) = self.disk.failure.lock().as_ref().filter(|(at, _)| *at >= since) {
            return Err(error.clone());
        }
        self.write_changes().await
    }

    /// Writes all that has changed, durable or not.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Kv::flush_up_to`].
    pub async fn flush_all(&self) -> Result<(), StoreError> {
        let _one = self.disk.writing.lock().await;
        self.write_changes().await
    }

    async fn write_changes(&self) -> Result<(), StoreError> {
        let Some(write) = &self.disk.write else { return Ok(()) };
        let wanted = self.disk.wanted.load(SeqCst);
        let mut batch = ChangeBatch { kv: self, changes: self.take_changes() };
        if !batch.changes.is_empty()
            && let Err(error) = write(batch.changes.clone()).await
        {
            *self.disk.failure.lock() = Some((Instant::now(), error.clone()));
            return Err(error);
        }
        batch.changes.clear();
        self.disk.flushed.fetch_max(wanted, SeqCst);
        *self.disk.failure.lock() = None;
        Ok(())
    }
}

impl Durable for Kv {
    fn flush(&self, up_to: u64) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.flush_up_to(up_to).await.map_err(Fault::from) })
    }
}

/// Changes on their way to disk. They go back to the maps when the attempt fails or is given up.
struct ChangeBatch<'a> {
    kv: &'a Kv,
    changes: Vec<KvChange>,
}

impl Drop for ChangeBatch<'_> {
    fn drop(&mut self) {
        self.kv.give_back(&self.changes);
    }
}
