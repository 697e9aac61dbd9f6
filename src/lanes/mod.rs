//! Lanes: a few threads for work that waits or takes its time, each piece on a stack of its own.
//!
//! Such work is written as if it could block. When it waits, its stack is put aside and its lane goes
//! on with another piece: thousands can wait at once without a thread each. A piece stays on the lane
//! it began on, so that nothing it holds ever changes threads. Whoever drops what [`run`] returned
//! ends the work: the next time it would wait or give way it is told to stop.

mod apart;
mod stackful;

#[cfg(test)]
mod tests;

pub use apart::{Abandoned, abandon, run_apart};
pub use stackful::{STACK, Stopped, give_way, is_here, wait};

use futures::future::LocalBoxFuture;
use stackful::Stackful;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::dispatcher;
use tracing::instrument::WithSubscriber;

/// Pieces of work at a time. Each has a stack, and a system gives a process only so many mappings.
const MOST: usize = 20_000;
/// Lanes where nothing is known of the machine, and at least.
const FEWEST: usize = 2;

/// Why a piece of work gave no value.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// Too much of it already waits.
    #[error("{MOST} scripts wait already, which is as many as there may be at once")]
    Full,
    /// The system gave no stack.
    #[error("there is no memory for the stack of one more script that waits: {0}")]
    NoStack(#[from] std::io::Error),
    /// It was left behind: it went far beyond what it may take.
    #[error("the call took far more memory than it may, and was abandoned")]
    Abandoned,
    /// It panicked, which was told where it happened.
    #[error("the work on a lane panicked")]
    Panicked,
}

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
    let (reply, value) = oneshot::channel();
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
            let value = tokio::select! {
                biased;
                () = reply.closed() => return,
                value = &mut piece => value,
            };
            // Whoever asked may have left just now.
            let _ = reply.send(value.map_err(|Abandoned| LaneError::Abandoned));
        };
        // What it logs goes where the log of whoever asked goes.
        Box::pin(piece.with_subscriber(log))
    };
    Lane::next(pace).send(Box::new(job));
    value.await.unwrap_or(Err(LaneError::Panicked))
}

type Job = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

/// A thread that goes on with whatever piece of its work can go on.
struct Lane(mpsc::UnboundedSender<Job>);

impl Lane {
    /// The lane whose turn it is to take one more piece.
    fn next(pace: Pace) -> &'static Self {
        static LANES: [OnceLock<Vec<Lane>>; 2] = [const { OnceLock::new() }; 2];
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let lanes = LANES[pace as usize].get_or_init(|| {
            let count = std::thread::available_parallelism().map_or(FEWEST, usize::from).max(FEWEST);
            (0..count).map(|index| Self::start(pace, index)).collect()
        });
        &lanes[TURN.fetch_add(1, Relaxed) % lanes.len()]
    }

    fn start(pace: Pace, index: usize) -> Self {
        let (jobs, mut coming) = mpsc::unbounded_channel::<Job>();
        let drive = move || {
            if pace == Pace::Slow {
                let_others_go_first();
            }
            // Timers and sockets belong to the runtime of whoever asked.
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let runtime = runtime.expect("a runtime without drivers asks the system for nothing");
            tokio::task::LocalSet::new().block_on(&runtime, async {
                while let Some(job) = coming.recv().await {
                    tokio::task::spawn_local(job());
                }
            });
        };
        let name = format!("{}-{index}", if pace == Pace::Slow { "slow-lane" } else { "lane" });
        let spawned = std::thread::Builder::new().name(name).spawn(drive);
        if let Err(error) = spawned {
            tracing::error!("failed to start a thread for scripts that wait: {error}");
        }
        Self(jobs)
    }

    fn send(&self, job: Job) {
        // A lane that could not be started drops its jobs, and who asked is told.
        let _ = self.0.send(job);
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
