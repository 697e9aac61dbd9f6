//! Lanes, and the watchdog thread that abandons lanes whose work does not yield.
//!
//! A lane publishes the running piece of its work. While any lane is busy, the watchdog checks the lanes
//! several times per second and compares the processor time that each has used since its piece started or last
//! yielded. Time spent waiting for a processor does not count.

use super::health::{
    ALL, Health, IS_ASLEEP, LOST_NOW, LOST_SO_FAR, WATCHER, WatchedWork, Workload, lost_now, max_stuck,
};
use futures_util::future::LocalBoxFuture;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;

/// The interval between two checks.
const LOOK: Duration = Duration::from_millis(250);

/// The minimum number of lanes per owner, also used if the number of processors is unknown.
const FEWEST: usize = 2;
/// The maximum number of lanes per workload.
const MAX_LANES: usize = 64;
/// The stack size of a lane's thread, in bytes; pieces of work have their own stacks.
const LANE_STACK: usize = 4 << 20;
/// The maximum number of lost lanes that are replaced at a time.
const MAX_LOST: usize = 8;

pub(super) type Job = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;
/// A piece of work that no lane has started yet.
pub(super) type Waiting = Arc<Mutex<Option<Job>>>;

/// A thread that runs pieces of work, switching between those that can continue.
pub(super) struct Lane {
    jobs: mpsc::UnboundedSender<(u64, Waiting)>,
    pub(super) health: Arc<Health>,
}

/// The lanes of each workload, as many as the maximum number of owners with concurrent work. A lost lane is
/// replaced by another.
pub(super) static LANES: [Mutex<Vec<Arc<Lane>>>; 2] = [const { Mutex::new(Vec::new()) }; 2];

impl Lane {
    /// Selects the lane for another piece of an owner's work; `None` if too many lanes are lost. Owners share a
    /// lane only if there are [`MAX_LANES`] already, so that a stuck piece blocks only its owner's work.
    pub(super) fn next(workload: Workload, owner: u64) -> Option<Arc<Self>> {
        let mut lanes = LANES[workload as usize].lock();
        let of_owner = |lane: &&Arc<Self>| lane.health.owner.load(Relaxed) == owner;
        let load = |lane: &&Arc<Self>| lane.health.pieces.load(Relaxed);
        let own = lanes.iter().filter(|lane| load(lane) > 0).filter(of_owner);
        let lane = if own.clone().count() < usual() {
            let free = lanes.iter().find(|lane| load(lane) == 0).cloned();
            free.or_else(|| {
                let may_start = lanes.len() < MAX_LANES && lost_now() <= MAX_LOST;
                let started = may_start.then(|| Arc::new(Self::start(workload, lanes.len())))?;
                lanes.push(started.clone());
                Some(started)
            })
        } else {
            None
        };
        let lane = lane.or_else(|| lanes.iter().filter(of_owner).min_by_key(load).cloned());
        let lane = lane.or_else(|| lanes.iter().min_by_key(load).cloned())?;
        if lane.health.pieces.fetch_add(1, Relaxed) == 0 {
            lane.health.owner.store(owner, Relaxed);
        }
        Some(lane)
    }

    fn start(workload: Workload, index: usize) -> Self {
        let (jobs, mut coming) = mpsc::unbounded_channel::<(u64, Waiting)>();
        let health = Arc::new(Health::new(workload));
        let own = health.clone();
        let drive = move || {
            if workload == Workload::CpuBound {
                let_others_go_first();
            }
            add(own.clone());
            // Timers and sockets belong to the caller's runtime.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .on_thread_park(valvehouse_memory::give_back_pages)
                .build();
            let runtime = runtime.expect("a runtime without drivers asks the system for nothing");
            let set = tokio::task::LocalSet::new();
            set.block_on(&runtime, async {
                while let Some((piece, job)) = coming.recv().await {
                    let Some(job) = job.lock().take() else {
                        own.pieces.fetch_sub(1, Relaxed);
                        continue;
                    };
                    tokio::task::spawn_local(WatchedWork::new(job(), piece, own.clone()));
                }
            });
            // If a lost lane returns, its remaining work is ended in order.
            runtime.block_on(set);
            own.ended();
        };
        let name = format!("{}-{index}", if workload == Workload::CpuBound { "slow-lane" } else { "lane" });
        let spawned = std::thread::Builder::new().name(name).stack_size(LANE_STACK).spawn(drive);
        if let Err(error) = spawned {
            tracing::error!("cannot start a thread for waiting scripts: {error}");
        }
        Self { jobs, health }
    }

    /// Sends a job and returns the number of its piece; `None` if the lane has no thread.
    pub(super) fn send(&self, job: Waiting) -> Option<u64> {
        static PIECES: AtomicU64 = AtomicU64::new(1);
        let piece = PIECES.fetch_add(1, Relaxed);
        self.jobs.send((piece, job)).ok().map(|()| piece)
    }
}

/// Returns the number of lanes over which one owner's work is distributed.
fn usual() -> usize {
    static USUAL: OnceLock<usize> = OnceLock::new();
    *USUAL.get_or_init(|| std::thread::available_parallelism().map_or(FEWEST, usize::from).max(FEWEST))
}

/// Removes a lane whose thread is missing or lost; another is started on demand.
pub(super) fn remove(lost: &Arc<Health>) {
    LANES[lost.workload as usize].lock().retain(|lane| !Arc::ptr_eq(&lane.health, lost));
}

/// Lowers the priority of this thread, so that it runs if no other needs the processor.
fn let_others_go_first() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10) {
        tracing::debug!("cannot lower the priority of scripts that compute for long: {error}");
    }
}

/// Adds the lane of this thread to the watched ones.
fn add(health: Arc<Health>) {
    #[cfg(target_os = "linux")]
    let _ = health.thread.set(rustix::thread::gettid().as_raw_nonzero().get());
    ALL.lock().push(health);
    WATCHER.get_or_init(|| {
        let spawned = std::thread::Builder::new().name("lane-watch".into()).stack_size(256 << 10).spawn(look);
        spawned.map(|handle| handle.thread().clone()).ok()
    });
}

/// Checks all lanes at intervals; sleeps while none is busy.
fn look() {
    // The processor time of each lane when its current piece was first seen.
    let mut seen: Vec<(Arc<Health>, u64, Duration)> = Vec::new();
    loop {
        let mut before = std::mem::take(&mut seen);
        if busy().is_empty() {
            IS_ASLEEP.store(true, SeqCst);
            // A lane that became busy before this point did not see the flag.
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

/// Returns the busy lanes.
fn busy() -> Vec<Arc<Health>> {
    ALL.lock().iter().filter(|health| health.piece.load(SeqCst) != 0).cloned().collect()
}

/// Marks a lane as lost.
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
        // The lost thread gets the lowest priority; its work may still end.
        let _ = rustix::process::setpriority_process(Some(thread), 19);
    }
    remove(health);
    health.lost.send_replace(piece);
}

/// Returns the processor time used by a thread of this process.
#[cfg(target_os = "linux")]
fn processor_time(thread: i32) -> Option<Duration> {
    let metrics = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    metrics.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(not(target_os = "linux"))]
fn processor_time(_: i32) -> Option<Duration> {
    None
}
