//! Tasks that continue after their client disconnected. Their number is limited; a shutdown waits for them
//! and then cancels them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use valvehouse_core::error::Error;

/// The maximum number of tasks that run at a time; others are queued.
const AT_A_TIME: usize = 32;
/// The maximum number of tasks that are queued or running. A caller may use as many as it leaves free.
const MAX_PENDING: usize = 256;
/// The maximum time that tasks have to record their end when the host closes.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The reason for ending a task early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The client canceled it.
    Canceled,
    /// The host is closing.
    HostCloses,
}

/// The callers of pending tasks and the signals that end these.
type Stops = Arc<Mutex<HashMap<String, (String, watch::Sender<Option<StopReason>>)>>>;

/// The tasks that continue after their client disconnected.
pub struct DetachedTasks {
    /// The name of this process among the processes that share the store.
    pub runner: String,
    tasks: Mutex<JoinSet<()>>,
    running: Arc<Semaphore>,
    stops: Stops,
    /// Notifies when a task has ended.
    ended: Arc<Notify>,
}

/// The handle of one task: its place in the queue, and its stop signal.
pub struct Ticket {
    running: Arc<Semaphore>,
    stop: watch::Receiver<Option<StopReason>>,
}

/// The place of a task in the queue.
pub struct QueueSlot(Arc<Semaphore>);

impl QueueSlot {
    /// Waits until the task may start. The task holds the returned permit while it runs.
    pub async fn begin(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().acquire_owned().await.ok()
    }
}

impl Ticket {
    /// Returns the place in the queue.
    pub fn place(&self) -> QueueSlot {
        QueueSlot(self.running.clone())
    }

    /// Waits until the task has to end, and returns the reason.
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
    /// Starts a task of a caller under an id.
    ///
    /// # Errors
    /// Returns an error with status 429 if too many tasks are pending, of this caller or of all.
    pub fn spawn<W>(&self, id: &str, caller: &str, work: impl FnOnce(Ticket) -> W) -> Result<(), Error>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (sender, stop) = watch::channel(None);
        let mut stops = self.stops.lock();
        let own = stops.values().filter(|(of, _)| of == caller).count();
        if own >= MAX_PENDING.saturating_sub(stops.len()) {
            return Err(Error::TooOften {
                message: format!(
                    "background responses exceeded their limit: {own} of this caller are pending, {} of all, at \
                     most {MAX_PENDING} together; try again later",
                    stops.len()
                ),
                code: "too_many_in_background",
                wait: Duration::from_secs(10),
            });
        }
        stops.insert(id.to_owned(), (caller.to_owned(), sender));
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

    /// Returns `true` if a task with this id is pending in this process.
    pub fn has(&self, id: &str) -> bool {
        self.stops.lock().contains_key(id)
    }

    /// Cancels the task with an id. Returns `false` if it is not pending in this process.
    pub fn cancel(&self, id: &str) -> bool {
        let stops = self.stops.lock();
        stops.get(id).is_some_and(|(_, stop)| {
            stop.send_replace(Some(StopReason::Canceled));
            true
        })
    }

    /// Waits until no task is pending.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.stops.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Ends all tasks after a short time in which each can record that.
    pub(crate) async fn close(&self) {
        for (_, stop) in self.stops.lock().values() {
            stop.send_replace(Some(StopReason::HostCloses));
        }
        let _ = tokio::time::timeout(LAST_WORDS, self.idle()).await;
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}

/// The registration of a pending task, removed when dropped.
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
