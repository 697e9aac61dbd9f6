//! Lanes: a few threads for work that waits or takes its time, each piece on a stack of its own.
//!
//! Such work is written as if it could block. When it waits, its stack is put aside and its lane goes
//! on with another piece: thousands can wait at once without a thread each. A piece stays on the lane
//! it began on, so that nothing it holds ever changes threads. Whoever drops what [`run`] returned
//! ends the work: the next time it would wait or give way it is told to stop.
//!
//! A lane whose work computes for [`max_stuck`] without giving way is left behind with its thread, and another lane takes
//! its place.

mod apart;
mod stackful;
mod watch;

#[cfg(test)]
mod tests;

pub use apart::{Abandoned, abandon, run_apart};
pub use stackful::{STACK, Stopped, give_way, is_here, wait};
pub use watch::{lost_now, lost_so_far, max_stuck, set_max_stuck};

use futures_util::future::LocalBoxFuture;
use parking_lot::{Mutex, RwLock};
use stackful::Stackful;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::dispatcher;
use tracing::instrument::WithSubscriber;
use watch::Health;

/// Pieces of work at a time. Each has a stack, and a system gives a process only so many mappings.
const MOST: usize = 20_000;
/// Lanes where nothing is known of the machine, and at least.
const FEWEST: usize = 2;
/// Most lanes that are lost at a time and replaced.
const MAX_LOST: usize = 8;

/// Why a piece of work gave no value.
#[derive(Debug)]
pub enum LaneError {
    /// Too much of it already waits.
    Full,
    /// The system gave no stack.
    NoStack(std::io::Error),
    /// It was left behind: it went far beyond what it may take.
    Abandoned,
    /// It computed for too long without giving way, and was left behind with its thread.
    Stuck,
    /// The thread was left behind since other work on it was stuck.
    Lost,
    /// Too many threads were left behind.
    NoLane,
    /// It panicked, which was told where it happened.
    Panicked,
}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "{MOST} scripts wait already, which is as many as there may be at once"),
            Self::NoStack(error) => {
                write!(f, "there is no memory for the stack of one more script that waits: {error}")
            }
            Self::Abandoned => f.write_str("the call took far more memory than it may, and was abandoned"),
            Self::Stuck => {
                let most = max_stuck().as_secs();
                write!(f, "the call computed for more than {most} s within one operation, and was abandoned")
            }
            Self::Lost => f.write_str("the call was ended with its thread, which another plugin held up"),
            Self::NoLane => {
                let lost = lost_now();
                write!(
                    f,
                    "no thread is left for this script: {lost} are held up by plugins; restart the host"
                )
            }
            Self::Panicked => f.write_str("the work on a lane panicked"),
        }
    }
}

impl std::error::Error for LaneError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoStack(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for LaneError {
    fn from(error: std::io::Error) -> Self {
        Self::NoStack(error)
    }
}

/// The cause with which the breaker of a plugin is tripped whose call ended with [`LaneError::Stuck`].
pub const STUCK: &str = "it computed for far too long within one operation";

/// What a piece of work is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It may wait, and otherwise is soon done.
    Waits,
    /// It computes for long: everything else goes first.
    Slow,
}

/// Runs work on one of the lanes. Dropping the future ends the work.
pub async fn run<T: Send + 'static>(
    pace: Pace,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LaneError> {
    let place = Place::take()?;
    let (reply, mut value) = oneshot::channel();
    // What computes only can do so without a runtime.
    let runtime = Handle::try_current().ok();
    let log = dispatcher::get_default(Clone::clone);
    let job = move || -> LocalBoxFuture<'static, ()> {
        let piece = async move {
            let _place = place;
            let mut reply = reply;
            if reply.is_closed() {
                return;
            }
            let mut piece = match Stackful::new(runtime, work) {
                Ok(piece) => piece,
                Err(error) => return drop(reply.send(Err(LaneError::NoStack(error)))),
            };
            // None once whoever asked has left.
            let value = poll_fn(|context| match reply.poll_closed(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => Pin::new(&mut piece).poll(context).map(Some),
            });
            let Some(value) = value.await else { return };
            // Whoever asked may have left just now.
            let _ = reply.send(value.map_err(|Abandoned| LaneError::Abandoned));
        };
        // What it logs goes where the log of whoever asked goes.
        Box::pin(piece.with_subscriber(log))
    };
    let job: Waiting = Arc::new(Mutex::new(Some(Box::new(job))));
    loop {
        let Some(lane) = Lane::next(pace) else { return Err(LaneError::NoLane) };
        let Some(piece) = lane.send(job.clone()) else {
            if lane.health.is_lost() {
                continue;
            }
            return Err(LaneError::NoLane);
        };
        let mut lost = pin!(lane.health.lost());
        // None once the lane is lost.
        let ended = poll_fn(|context| match Pin::new(&mut value).poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => lost.as_mut().poll(context).map(|()| None),
        });
        if let Some(value) = ended.await {
            return value.unwrap_or(Err(LaneError::Panicked));
        }
        if let Ok(value) = value.try_recv() {
            return value;
        }
        // What has not begun there goes to another.
        if job.lock().is_none() {
            return Err(lane.health.error_of(piece));
        }
    }
}

type Job = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;
/// A piece of work until a lane begins it.
type Waiting = Arc<Mutex<Option<Job>>>;

/// A thread that goes on with whatever piece of its work can go on.
struct Lane {
    jobs: mpsc::UnboundedSender<(u64, Waiting)>,
    health: Arc<Health>,
}

/// The lanes of each pace. One that is lost makes room for another.
static LANES: [RwLock<Vec<Arc<Lane>>>; 2] = [const { RwLock::new(Vec::new()) }; 2];

impl Lane {
    /// The lane whose turn it is to take one more piece; `None` if too many were lost.
    fn next(pace: Pace) -> Option<Arc<Self>> {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let turn = TURN.fetch_add(1, Relaxed);
        let one_of = |lanes: &[Arc<Self>]| lanes.get(turn.checked_rem(lanes.len())?).cloned();
        let started = one_of(&LANES[pace as usize].read());
        started.or_else(|| one_of(&Self::all(pace)))
    }

    /// The lanes of a pace, which are started when there are none, unless too many were lost.
    fn all(pace: Pace) -> Vec<Arc<Self>> {
        let mut lanes = LANES[pace as usize].write();
        if lanes.is_empty() && lost_now() <= MAX_LOST {
            let count = std::thread::available_parallelism().map_or(FEWEST, usize::from).max(FEWEST);
            lanes.extend((0..count).map(|index| Arc::new(Self::start(pace, index))));
        }
        lanes.clone()
    }

    fn start(pace: Pace, index: usize) -> Self {
        let (jobs, mut coming) = mpsc::unbounded_channel::<(u64, Waiting)>();
        let health = Arc::new(Health::new(pace));
        let own = health.clone();
        let drive = move || {
            if pace == Pace::Slow {
                let_others_go_first();
            }
            watch::add(own.clone());
            // Timers and sockets belong to the runtime of whoever asked.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .on_thread_park(valvehouse_memory::give_back_pages)
                .build();
            let runtime = runtime.expect("a runtime without drivers asks the system for nothing");
            let set = tokio::task::LocalSet::new();
            set.block_on(&runtime, async {
                while let Some((piece, job)) = coming.recv().await {
                    let Some(job) = job.lock().take() else { continue };
                    tokio::task::spawn_local(watch::Watched::new(job(), piece, own.clone()));
                }
            });
            // A lane that was lost and came back: its work is ended, in its own order.
            runtime.block_on(set);
            own.ended();
        };
        let name = format!("{}-{index}", if pace == Pace::Slow { "slow-lane" } else { "lane" });
        let spawned = std::thread::Builder::new().name(name).spawn(drive);
        if let Err(error) = spawned {
            tracing::error!("failed to start a thread for scripts that wait: {error}");
        }
        Self { jobs, health }
    }

    /// Sends a job, and returns the number of its piece; `None` if the lane has no thread.
    fn send(&self, job: Waiting) -> Option<u64> {
        static PIECES: AtomicU64 = AtomicU64::new(1);
        let piece = PIECES.fetch_add(1, Relaxed);
        self.jobs.send((piece, job)).ok().map(|()| piece)
    }
}

/// Takes a lane out whose thread is lost, and starts another in its place, unless too many are lost.
fn replace(lost: &Arc<Health>) {
    let mut lanes = LANES[lost.pace as usize].write();
    let Some(at) = lanes.iter().position(|lane| Arc::ptr_eq(&lane.health, lost)) else { return };
    if lost_now() <= MAX_LOST {
        lanes[at] = Arc::new(Lane::start(lost.pace, at));
    } else {
        lanes.remove(at);
    }
}

/// This thread gets a processor when nobody else wants it, or a small share of it.
fn let_others_go_first() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10) {
        tracing::debug!("scripts that compute for long have the priority of others: {error}");
    }
}

/// One of the places that there are for work at a time.
struct Place;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

impl Place {
    fn take() -> Result<Self, LaneError> {
        if TAKEN.fetch_add(1, Relaxed) < MOST {
            return Ok(Self);
        }
        TAKEN.fetch_sub(1, Relaxed);
        Err(LaneError::Full)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Relaxed);
    }
}
