//! Writes of a turn that must be on disk before its answer ends.

use crate::error::Error;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// A store that numbers its writes and flushes them to disk.
pub trait Durable: Send + Sync {
    /// Waits until the writes up to this number are on disk.
    ///
    /// # Errors
    /// Returns an error if the writes fail; they are retried later.
    fn flush(&self, up_to: u64) -> BoxFuture<'_, Result<(), Error>>;
}

/// The last write that a turn has to wait for.
#[derive(Default)]
pub(super) struct PendingFlush(parking_lot::Mutex<Option<(Arc<dyn Durable>, u64)>>);

impl PendingFlush {
    pub(super) fn add(&self, target: Arc<dyn Durable>, write: u64) {
        *self.0.lock() = Some((target, write));
    }

    pub(super) async fn flush(&self) -> Result<(), Error> {
        // The lock is released before the wait.
        let waiting = self.0.lock().take();
        match waiting {
            Some((target, write)) => target.flush(write).await,
            None => Ok(()),
        }
    }
}
