//! Lanes whose work computes without end: they are found and given up.
//!
//! A lane says which piece of its work runs. A thread looks at the lanes a few times a second, as long as any of
//! them is at work, and compares the time that each has had of a processor since its piece began or last gave way: time
//! for which it had to wait for a processor does not count.

use super::{LaneError, Pace};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::watch;

/// The processor time in milliseconds that work on a lane may take without giving way. Scripts give way every few
/// milliseconds, and none of the host's functions takes a tenth of this.
static MAX_STUCK_MS: AtomicU64 = AtomicU64::new(if cfg!(debug_assertions) { 60_000 } else { 5_000 });

/// Returns the processor time that work on a lane may take without giving way: 5 s, in a debug build 60 s.
pub fn max_stuck() -> Duration {
    Duration::from_millis(MAX_STUCK_MS.load(Relaxed))
}

/// Sets the processor time that work on a lane may take without giving way, for all lanes of the process.
pub fn set_max_stuck(limit: Duration) {
    MAX_STUCK_MS.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Relaxed);
}
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// The state of a lane that other threads can read.
#[derive(Debug)]
pub(super) struct Health {
    /// The piece that runs, 0 for none, and how many times any has begun to run.
    piece: AtomicU64,
    turns: AtomicU64,
    /// The system's number of the thread.
    thread: OnceLock<i32>,
    /// The piece with which the lane was lost; 0 before.
    lost: watch::Sender<u64>,
    is_counted: AtomicBool,
    pub(super) pace: Pace,
}

impl Health {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            piece: AtomicU64::new(0),
            turns: AtomicU64::new(0),
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
        // The sender lives as long as this.
        let _ = self.lost.subscribe().wait_for(|piece| *piece != 0).await;
    }

    /// The error of a piece that had begun on the lane when it was lost.
    pub(super) fn error_of(&self, piece: u64) -> LaneError {
        if *self.lost.borrow() == piece { LaneError::Stuck } else { LaneError::Lost }
    }

    /// The lane's thread has come to its end.
    pub(super) fn ended(&self) {
        if self.is_counted.swap(false, SeqCst) {
            LOST_NOW.fetch_sub(1, SeqCst);
        }
        ALL.lock().retain(|health| !std::ptr::eq(&raw const **health, self));
    }
}

static LOST_NOW: AtomicUsize = AtomicUsize::new(0);
static LOST_SO_FAR: AtomicU64 = AtomicU64::new(0);
static ALL: Mutex<Vec<Arc<Health>>> = Mutex::new(Vec::new());
static WATCHER: OnceLock<Option<Thread>> = OnceLock::new();
static IS_ASLEEP: AtomicBool = AtomicBool::new(false);

/// Returns the number of lanes that are lost at this moment: each has a thread that computes.
pub fn lost_now() -> usize {
    LOST_NOW.load(SeqCst)
}

/// Returns the number of lanes that were lost since the process started.
pub fn lost_so_far() -> u64 {
    LOST_SO_FAR.load(Relaxed)
}

/// Adds the lane of this thread to those that are looked at.
pub(super) fn add(health: Arc<Health>) {
    #[cfg(target_os = "linux")]
    let _ = health.thread.set(rustix::thread::gettid().as_raw_nonzero().get());
    ALL.lock().push(health);
    WATCHER.get_or_init(|| {
        let spawned = std::thread::Builder::new().name("lane-watch".into()).stack_size(256 << 10).spawn(look);
        spawned.map(|handle| handle.thread().clone()).ok()
    });
}

/// A piece of work that says when it runs.
pub(super) struct Watched<F> {
    work: F,
    piece: u64,
    health: Arc<Health>,
}

impl<F> Watched<F> {
    pub(super) fn new(work: F, piece: u64, health: Arc<Health>) -> Self {
        Self { work, piece, health }
    }
}

impl<F: Future<Output = ()> + Unpin> Future for Watched<F> {
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

/// Looks at all lanes again and again; sleeps while none is at work.
fn look() {
    // What each had of a processor when its turn was first seen.
    let mut seen: Vec<(Arc<Health>, u64, Duration)> = Vec::new();
    loop {
        let mut before = std::mem::take(&mut seen);
        if busy().is_empty() {
            IS_ASLEEP.store(true, SeqCst);
            // Whoever began before that did not see it.
            if busy().is_empty() {
                std::thread::park();
            }
            IS_ASLEEP.store(false, SeqCst);
        }
        for health in busy() {
            let (turn, piece) = (health.turns.load(Relaxed), health.piece.load(Relaxed));
            let Some(now) = health.thread.get().and_then(|thread| processor_time(*thread)) else { continue };
            let known = before.iter().position(|(other, at, _)| Arc::ptr_eq(other, &health) && *at == turn);
            let since = known.map_or(now, |known| before.swap_remove(known).2);
            if piece != 0 && now.saturating_sub(since) > max_stuck() && health.turns.load(Relaxed) == turn {
                lose(&health, piece);
            } else {
                seen.push((health, turn, since));
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// The lanes that are at work.
fn busy() -> Vec<Arc<Health>> {
    ALL.lock().iter().filter(|health| health.piece.load(SeqCst) != 0).cloned().collect()
}

/// Leaves a lane behind.
fn lose(health: &Arc<Health>, piece: u64) {
    ALL.lock().retain(|other| !Arc::ptr_eq(other, health));
    health.is_counted.store(true, SeqCst);
    LOST_NOW.fetch_add(1, SeqCst);
    LOST_SO_FAR.fetch_add(1, Relaxed);
    tracing::error!(
        "a thread for scripts is lost: a plugin has computed for {} s within one operation",
        max_stuck().as_secs()
    );
    #[cfg(target_os = "linux")]
    if let Some(thread) = health.thread.get().and_then(|thread| rustix::process::Pid::from_raw(*thread)) {
        // It only gets what nobody else wants, and may come back one day.
        let _ = rustix::process::setpriority_process(Some(thread), 19);
    }
    super::replace(health);
    health.lost.send_replace(piece);
}

/// The time that a thread of this process had of a processor.
#[cfg(target_os = "linux")]
fn processor_time(thread: i32) -> Option<Duration> {
    let figures = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    figures.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(not(target_os = "linux"))]
fn processor_time(_: i32) -> Option<Duration> {
    None
}
