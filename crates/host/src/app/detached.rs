//! Work that continues after its client disconnected: bounded, drained at a shutdown, and canceled at its end.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use valvehouse_core::error::Error;

/// Pieces of work that run at a time; the others are queued.
const AT_A_TIME: usize = 32;
/// Pieces that may be queued or run.
const MAX_PENDING: usize = 256;
/// The longest time that work has to record its end when the host closes.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The reason for which work ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Its client canceled it.
    Canceled,
    /// The host closes.
    HostCloses,
}

type Stops = Arc<Mutex<HashMap<String, watch::Sender<Option<StopReason>>>>>;

/// Work that goes on when its client has left.
pub struct DetachedTasks {
    /// The name of this process among those that share the store.
    pub runner: String,
    tasks: Mutex<JoinSet<()>>,
    running: Arc<Semaphore>,
    stops: Stops,
    /// Tells that a piece of work has ended.
    ended: Arc<Notify>,
}

/// One piece of work: its place among those that run, and the word that it has to end.
pub struct Ticket {
    running: Arc<Semaphore>,
    stop: watch::Receiver<Option<StopReason>>,
}

/// The place of one piece of work among those that run.
pub struct QueueSlot(Arc<Semaphore>);

impl QueueSlot {
    /// Waits until the work may start; its permit is the returned value.
    pub async fn begin(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().acquire_owned().await.ok()
    }
}

impl Ticket {
    /// The place that the work waits for.
    pub fn place(&self) -> QueueSlot {
        QueueSlot(self.running.clone())
    }

    /// Waits until the work has to end.
    pub async fn stopped(&mut self) -> StopReason {
        match self.stop.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(StopReason::HostCloses),
            Err(_) => StopReason::HostCloses,
        }
    }
}

impl Default for DetachedTasks {
    fn default() -> Self {
        Self {
            runner: uuid::Uuid::new_v4().to_string(),
            tasks: Mutex::default(),
            running: Arc::new(Semaphore::new(AT_A_TIME)),
            stops: Stops::default(),
            ended: Arc::default(),
        }
    }
}

impl DetachedTasks {
    /// Begins work under an id.
    ///
    /// # Errors
    /// Returns an error with status 429 if too much work is pending already.
    pub fn spawn<W>(&self, id: &str, work: impl FnOnce(Ticket) -> W) -> Result<(), Error>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (sender, stop) = watch::channel(None);
        let mut stops = self.stops.lock();
        if stops.len() >= MAX_PENDING {
            return Err(Error::TooOften {
                message: format!(
                    "background responses exceeded their limit of {MAX_PENDING}; try again later"
                ),
                code: "too_many_in_background",
                wait: Duration::from_secs(10),
            });
        }
        stops.insert(id.to_owned(), sender);
        drop(stops);
        let entry = Entry { stops: self.stops.clone(), ended: self.ended.clone(), id: id.to_owned() };
        let work = work(Ticket { running: self.running.clone(), stop });
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let _entry = entry;
            work.await;
        });
        Ok(())
    }

    /// Returns `true` if the work of this id is done here.
    pub fn has(&self, id: &str) -> bool {
        self.stops.lock().contains_key(id)
    }

    /// Cancels the work of an id. Returns `false` if it is not done here.
    pub fn cancel(&self, id: &str) -> bool {
        let stops = self.stops.lock();
        stops.get(id).is_some_and(|stop| {
            stop.send_replace(Some(StopReason::Canceled));
            true
        })
    }

    /// Waits until nothing is queued or runs.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.stops.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Ends all work, each chunk after it had time to record that.
    pub(crate) async fn close(&self) {
        for stop in self.stops.lock().values() {
            stop.send_replace(Some(StopReason::HostCloses));
        }
        let _ = tokio::time::timeout(LAST_WORDS, self.idle()).await;
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}

/// One piece of work among those in progress.
struct Entry {
    stops: Stops,
    ended: Arc<Notify>,
    id: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.stops.lock().remove(&self.id);
        self.ended.notify_waiters();
    }
}
