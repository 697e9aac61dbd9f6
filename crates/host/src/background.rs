//! A queue of limited length for work of scripts that runs after the client has its answer.

use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use valvehouse_core::error::PluginError;
use valvehouse_core::trace::{RequestFacts, Traces};
use valvehouse_script::{Background, Work};

/// The maximum number of tasks that are queued or running.
const MAX_PENDING: usize = 256;
/// The maximum number of bytes that all tasks retain.
const MAX_BYTES: usize = 64 << 20;
/// The maximum number of tasks that run at a time.
const AT_A_TIME: usize = 8;
/// The minimum time between two log messages about dropped tasks.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// The tasks that scripts run after their answers.
pub struct AfterAnswers {
    own: Weak<Self>,
    runtime: Option<Handle>,
    tasks: Mutex<JoinSet<()>>,
    running: Arc<Semaphore>,
    traces: OnceLock<Arc<Traces>>,
    is_closed: AtomicBool,
    pending: AtomicUsize,
    /// Notifies when a task has ended.
    ended: Notify,
    bytes: AtomicUsize,
    done: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    /// The time of the last log message about dropped tasks.
    last_logged: Mutex<Option<Instant>>,
}

/// The numbers of tasks so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkCounts {
    /// Tasks that are queued or running.
    pub pending: usize,
    /// Tasks that succeeded.
    pub done: u64,
    /// Tasks that failed or were canceled at the end of the host.
    pub failed: u64,
    /// Tasks that were not started, because there were too many or the host was stopping.
    pub dropped: u64,
}

impl AfterAnswers {
    /// Creates a queue whose tasks run on the current runtime.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            runtime: Handle::try_current().ok(),
            tasks: Mutex::default(),
            running: Arc::new(Semaphore::new(AT_A_TIME)),
            traces: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            ended: Notify::new(),
            bytes: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            last_logged: Mutex::default(),
        })
    }

    /// Records each task in these traces.
    pub(crate) fn recorded_in(&self, traces: Arc<Traces>) {
        // A host sets its traces once.
        let _ = self.traces.set(traces);
    }

    /// Returns the numbers of tasks.
    pub fn counts(&self) -> WorkCounts {
        WorkCounts {
            pending: self.pending.load(SeqCst),
            done: self.done.load(SeqCst),
            failed: self.failed.load(SeqCst),
            dropped: self.dropped.load(SeqCst),
        }
    }

    /// Waits until no task is queued or running.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.pending.load(SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Rejects new tasks, and cancels those that are running.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, SeqCst);
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let left = self.pending.load(SeqCst);
        if left > 0 {
            tracing::warn!("canceled {left} background tasks of scripts, since the host stopped");
        }
        tasks.shutdown().await;
    }

    fn drop_work(&self, work: &Work, why: &str) {
        self.dropped.fetch_add(1, SeqCst);
        let mut last_logged = self.last_logged.lock();
        if last_logged.is_none_or(|at| at.elapsed() >= BETWEEN_LINES) {
            *last_logged = Some(Instant::now());
            let (plugin, what, all) = (&*work.plugin, work.what, self.dropped.load(SeqCst));
            tracing::error!(plugin, "dropped a background task of `{what}`: {why}; {all} dropped so far");
        }
    }

    async fn work(self: Arc<Self>, work: Work) {
        let (plugin, what) = (work.plugin.clone(), work.what);
        let pending = Pending { queue: self.clone(), bytes: work.bytes, is_done: false };
        let running = self.running.clone().acquire_owned().await;
        let recording = self.traces.get().map(|traces| {
            let [model, user, chat_id] = work.origin.clone();
            let request_facts =
                RequestFacts { endpoint: what, model, user, chat_id, ..RequestFacts::default() };
            traces.begin(request_facts, false)
        });
        let trace = recording.as_ref().map(|recording| recording.trace().clone());
        let result = work.run(trace).await;
        drop(running);
        pending.ends(result.is_ok());
        if let Err(PluginError { cause, .. }) = &result {
            tracing::error!(plugin = &*plugin, hook = what, "a background task failed: {cause}");
        }
        if let Some(mut recording) = recording {
            if let Err(PluginError { cause, .. }) = &result {
                recording.failed(cause);
            }
            recording.answered(if result.is_ok() { 200 } else { 500 });
            recording.done();
        }
    }
}

impl Background for AfterAnswers {
    fn put(&self, work: Work) {
        if self.is_closed.load(SeqCst) {
            return self.drop_work(&work, "the host is stopping");
        }
        let (Some(runtime), Some(own)) = (&self.runtime, self.own.upgrade()) else {
            return self.drop_work(&work, "no host is running");
        };
        let (pending, bytes) = (self.pending.fetch_add(1, SeqCst), self.bytes.fetch_add(work.bytes, SeqCst));
        if pending >= MAX_PENDING || bytes + work.bytes > MAX_BYTES && pending > 0 {
            self.pending.fetch_sub(1, SeqCst);
            self.bytes.fetch_sub(work.bytes, SeqCst);
            return self
                .drop_work(&work, &format!("the queue is full with {pending} tasks of {} MiB", bytes >> 20));
        }
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(own.work(work), runtime);
    }
}

/// A task in progress; it counts as failed if it is dropped.
struct Pending {
    queue: Arc<AfterAnswers>,
    bytes: usize,
    is_done: bool,
}

impl Pending {
    fn ends(mut self, is_done: bool) {
        self.is_done = is_done;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let count = if self.is_done { &self.queue.done } else { &self.queue.failed };
        count.fetch_add(1, SeqCst);
        self.queue.bytes.fetch_sub(self.bytes, SeqCst);
        self.queue.pending.fetch_sub(1, SeqCst);
        self.queue.ended.notify_waiters();
    }
}

impl fmt::Debug for AfterAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AfterAnswers").field(&self.counts()).finish()
    }
}
