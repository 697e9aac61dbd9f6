//! The ended requests that wait to be stored.

use super::facts::MAX_CONTENTS;
use super::trace::{Trace, TraceList};
use parking_lot::Mutex;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum number of requests that wait.
const MAX_WAITING: usize = 10_000;

/// A queue of ended requests. It delays no request: while it is full, the oldest ones of the key with the most are
/// dropped.
#[derive(Debug, Default)]
pub struct TraceQueue {
    waiting: Mutex<TraceList>,
    dropped: AtomicU64,
}

impl TraceQueue {
    /// Adds a request that ended.
    pub(super) fn add(&self, trace: &Arc<Trace>) {
        let mut waiting = self.waiting.lock();
        waiting.push(trace.owner(), trace.content(), trace.clone());
        self.limit(&mut waiting);
    }

    /// Takes the oldest requests, at most this number.
    pub fn take(&self, most: usize) -> TraceBatch<'_> {
        let mut waiting = self.waiting.lock();
        let oldest = (0..most).map_while(|_| {
            let (number, _) = waiting.first()?;
            Some((waiting.remove(number)?, number))
        });
        let (traces, numbers) = oldest.unzip();
        TraceBatch { queue: self, traces, numbers }
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Returns the number of requests that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn limit(&self, waiting: &mut TraceList) {
        let dropped = waiting.fit(MAX_WAITING, MAX_CONTENTS).len();
        self.dropped.fetch_add(dropped as u64, Relaxed);
    }
}

/// Requests from a queue, to which they return when this value is dropped before [`TraceBatch::end`].
pub struct TraceBatch<'q> {
    queue: &'q TraceQueue,
    traces: Vec<Arc<Trace>>,
    /// Their places in the queue.
    numbers: Vec<u64>,
}

impl TraceBatch<'_> {
    /// Removes the requests from the queue for good.
    pub fn end(mut self) {
        self.traces.clear();
    }
}

impl Deref for TraceBatch<'_> {
    type Target = [Arc<Trace>];

    fn deref(&self) -> &Self::Target {
        &self.traces
    }
}

impl Drop for TraceBatch<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock();
        for (trace, number) in self.traces.drain(..).zip(&self.numbers) {
            waiting.insert(*number, trace.owner(), trace.content(), trace);
        }
        self.queue.limit(&mut waiting);
    }
}
