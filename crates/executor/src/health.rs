//! The state of lanes: the running piece of work, and the lanes that are lost.

use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::watch;

/// The maximum processor time, in milliseconds, for which work on a lane may run without yielding. Scripts
/// yield every few milliseconds, and no host function takes a tenth of this limit.
static MAX_STUCK_MS: AtomicU64 = AtomicU64::new(if cfg!(debug_assertions) { 60_000 } else { 5_000 });

/// Returns the maximum processor time for which work on a lane may run without yielding: 5 s, in a debug build
/// 60 s.
pub fn max_stuck() -> Duration {
    Duration::from_millis(MAX_STUCK_MS.load(Relaxed))
}

/// Sets the maximum processor time for which work may run without yielding, for all lanes of the process.
pub fn set_max_stuck(limit: Duration) {
    MAX_STUCK_MS.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Relaxed);
}

/// The workload of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Work that may wait and otherwise finishes soon.
    Blocking,
    /// Work that computes for long; its threads have a low priority.
    CpuBound,
}

/// The state of a lane, readable from other threads.
#[derive(Debug)]
pub(super) struct Health {
    /// The running piece, 0 for none, and the number of times that a piece has started or resumed.
    pub(super) piece: AtomicU64,
    pub(super) turns: AtomicU64,
    /// The number of unfinished pieces sent to the lane, and their owner.
    pub(super) pieces: AtomicUsize,
    pub(super) owner: AtomicU64,
    /// The system's id of the thread.
    pub(super) thread: OnceLock<i32>,
    /// The piece that caused the loss of the lane; 0 for a working lane.
    pub(super) lost: watch::Sender<u64>,
    pub(super) is_counted: AtomicBool,
    pub(super) workload: Workload,
}

impl Health {
    pub(super) fn new(workload: Workload) -> Self {
        Self {
            workload,
            piece: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            pieces: AtomicUsize::new(0),
            owner: AtomicU64::new(0),
            thread: OnceLock::new(),
            lost: watch::Sender::new(0),
            is_counted: AtomicBool::new(false),
        }
    }

    /// Returns `true` if the lane is lost.
    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow() != 0
    }

    /// Waits until the lane is lost.
    pub(super) async fn lost(&self) {
        // The sender lives as long as this value, so this cannot fail.
        let _ = self.lost.subscribe().wait_for(|piece| *piece != 0).await;
    }

    /// Records that the lane's thread ended.
    pub(super) fn ended(&self) {
        if self.is_counted.swap(false, SeqCst) {
            LOST_NOW.fetch_sub(1, SeqCst);
        }
        ALL.lock().retain(|health| !std::ptr::eq(&raw const **health, self));
    }
}

pub(super) static LOST_NOW: AtomicUsize = AtomicUsize::new(0);
pub(super) static LOST_SO_FAR: AtomicU64 = AtomicU64::new(0);
pub(super) static ALL: Mutex<Vec<Arc<Health>>> = Mutex::new(Vec::new());
pub(super) static WATCHER: OnceLock<Option<Thread>> = OnceLock::new();
pub(super) static IS_ASLEEP: AtomicBool = AtomicBool::new(false);

/// Returns the number of lanes that are lost now; the thread of each is still computing.
pub fn lost_now() -> usize {
    LOST_NOW.load(SeqCst)
}

/// Returns the number of lanes lost since the process started.
pub fn lost_so_far() -> u64 {
    LOST_SO_FAR.load(Relaxed)
}

/// A piece of work that records when it runs.
pub(super) struct WatchedWork<F> {
    work: F,
    piece: u64,
    health: Arc<Health>,
}

impl<F> WatchedWork<F> {
    pub(super) fn new(work: F, piece: u64, health: Arc<Health>) -> Self {
        Self { work, piece, health }
    }
}

impl<F> Drop for WatchedWork<F> {
    fn drop(&mut self) {
        self.health.pieces.fetch_sub(1, Relaxed);
    }
}

impl<F: Future<Output = ()> + Unpin> Future for WatchedWork<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.health.turns.fetch_add(1, Relaxed);
        this.health.piece.store(this.piece, SeqCst);
        if IS_ASLEEP.load(SeqCst)
            && let Some(Some(watcher)) = WATCHER.get()
        {
            watcher.unpark();
        }
        let polled = Pin::new(&mut this.work).poll(context);
        this.health.piece.store(0, Relaxed);
        polled
    }
}
