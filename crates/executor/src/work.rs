//! Functions that run work on a lane.

use super::error::{AbandonedWork, ExecutorError, MAX_WAITING};
use super::health::{Health, Workload};
use super::lane::{self, Lane, Waiting};
use super::stackful::Stackful;
use futures_util::future::LocalBoxFuture;
use parking_lot::Mutex;
use std::any::Any;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::dispatcher;
use tracing::instrument::WithSubscriber;

tokio::task_local! {
    /// A value that accompanies the work of a task, such as the request for which it works. Work on lanes inherits it.
    pub static CARRIED: Arc<dyn Any + Send + Sync>;
}

/// Runs work without an owner on a lane; see [`run_for`].
///
/// # Errors
///
/// Returns the errors of [`run_for`].
pub async fn run<T: Send + 'static>(
    workload: Workload,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ExecutorError> {
    run_for("", workload, work).await
}

/// Runs the work of an owner, such as a plugin, on a lane. Dropping the future ends the work. Stuck work
/// affects only its owner's other work, unless more owners wait at a time than there may be lanes.
///
/// # Errors
///
/// Returns an error if the work was abandoned or panicked, or if there are too many pieces of work.
pub async fn run_for<T: Send + 'static>(
    owner: &str,
    workload: Workload,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ExecutorError> {
    let owner = OWNERS.hash_one(owner);
    let place = Place::take()?;
    let (reply, mut value) = oneshot::channel();
    // Work that only computes does not need a runtime.
    let runtime = Handle::try_current().ok();
    let log = dispatcher::get_default(Clone::clone);
    let carried = CARRIED.try_with(Clone::clone).ok();
    let job = move || -> LocalBoxFuture<'static, ()> {
        let piece = async move {
            let _place = place;
            let mut reply = reply;
            if reply.is_closed() {
                return;
            }
            let mut piece = match Stackful::new(runtime, work) {
                Ok(piece) => piece,
                Err(error) => return drop(reply.send(Err(ExecutorError::NoStack(error)))),
            };
            // The value is `None` once the caller is gone.
            let value = poll_fn(|context| match reply.poll_closed(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => Pin::new(&mut piece).poll(context).map(Some),
            });
            let Some(value) = value.await else { return };
            // The caller may be gone by now.
            let _ = reply.send(value.map_err(|AbandonedWork| ExecutorError::Abandoned));
        };
        // The work's log lines go to the log of its caller.
        let piece = piece.with_subscriber(log);
        match carried {
            Some(carried) => Box::pin(CARRIED.scope(carried, piece)),
            None => Box::pin(piece),
        }
    };
    let job: Waiting = Arc::new(Mutex::new(Some(Box::new(job))));
    loop {
        let Some(lane) = Lane::next(workload, owner) else { return Err(ExecutorError::NoLane) };
        let Some(piece) = lane.send(job.clone()) else {
            if lane.health.is_lost() {
                continue;
            }
            // The lane's thread could not be started: the next piece tries again.
            lane::remove(&lane.health);
            return Err(ExecutorError::NoLane);
        };
        let mut lost = pin!(lane.health.lost());
        // The value is `None` once the lane is lost.
        let ended = poll_fn(|context| match Pin::new(&mut value).poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => lost.as_mut().poll(context).map(|()| None),
        });
        if let Some(value) = ended.await {
            return value.unwrap_or(Err(ExecutorError::Panicked));
        }
        if let Ok(value) = value.try_recv() {
            return value;
        }
        // A job that has not started on the lost lane is sent to another lane.
        if job.lock().is_none() {
            return Err(error_of(&lane.health, piece));
        }
    }
}

/// The hasher that maps owners to numbers.
static OWNERS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns the error of a piece that had started on a lane when it was lost.
fn error_of(health: &Health, piece: u64) -> ExecutorError {
    if *health.lost.borrow() == piece { ExecutorError::Stuck } else { ExecutorError::Lost }
}

/// A slot for a piece of work; the number of slots limits concurrent work.
pub(super) struct Place;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

impl Place {
    pub(super) fn take() -> Result<Self, ExecutorError> {
        Self::take_of(MAX_WAITING)
    }

    /// Takes a slot for a part of a call; parts may use only half of the slots.
    pub(super) fn take_for_part() -> Result<Self, ExecutorError> {
        Self::take_of(MAX_WAITING / 2)
    }

    fn take_of(most: usize) -> Result<Self, ExecutorError> {
        if TAKEN.fetch_add(1, Relaxed) < most {
            return Ok(Self);
        }
        TAKEN.fetch_sub(1, Relaxed);
        Err(ExecutorError::Full)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Relaxed);
    }
}
