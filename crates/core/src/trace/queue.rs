//! The ended requests that wait to be stored.

use super::facts::MAX_CONTENTS;
use super::trace::Trace;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum number of requests that wait.
const MAX_WAITING: usize = 10_000;

/// A queue of ended requests. It delays no request: while it is full, the oldest ones are dropped.
#[derive(Debug, Default)]
pub struct TraceQueue {
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The requests with the number of bytes of their contents, the oldest first.
    traces: VecDeque<(Arc<Trace>, usize)>,
    contents: usize,
}

impl TraceQueue {
    /// Adds a request that ended.
    pub(super) fn add(&self, trace: &Arc<Trace>) {
        let mut waiting = self.waiting.lock();
        let contents = trace.content();
        waiting.traces.push_back((trace.clone(), contents));
        waiting.contents += contents;
        self.limit(&mut waiting);
    }

    /// Takes the oldest requests, at most this number.
    pub fn take(&self, most: usize) -> TraceBatch<'_> {
        let mut waiting = self.waiting.lock();
        TraceBatch { queue: self, traces: (0..most).map_while(|_| waiting.pop()).collect() }
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().traces.len()
    }

    /// Returns the number of requests that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn limit(&self, waiting: &mut Waiting) {
        while waiting.traces.len() > MAX_WAITING || waiting.contents > MAX_CONTENTS {
            waiting.pop();
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// Requests from a queue, to which they return when this value is dropped before [`TraceBatch::end`].
pub struct TraceBatch<'q> {
    queue: &'q TraceQueue,
    traces: Vec<Arc<Trace>>,
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
        for trace in self.traces.drain(..).rev() {
            let contents = trace.content();
            waiting.traces.push_front((trace, contents));
            waiting.contents += contents;
        }
        self.queue.limit(&mut waiting);
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<Arc<Trace>> {
        let (trace, contents) = self.traces.pop_front()?;
        self.contents -= contents;
        Some(trace)
    }
}
