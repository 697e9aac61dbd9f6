//! A queue of limited length for work of scripts that runs after the client has its answer.
//!
//! Plugins share it fairly: each may use as much of the queue and of the concurrent tasks as it leaves free.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use valvehouse_core::error::PluginError;
use valvehouse_core::trace::{RequestFacts, Traces};
use valvehouse_dialect::call::resources::{Background, Work};

/// The maximum number of tasks that are queued or running.
const MAX_PENDING: usize = 512;
/// The maximum number of bytes that all tasks retain.
const MAX_BYTES: usize = 128 << 20;
/// The maximum number of tasks that run at a time.
const AT_A_TIME: usize = 16;
/// The minimum time between two log messages about dropped tasks.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// The tasks that scripts run after their answers.
pub struct AfterAnswers {
    own: Weak<Self>,
    runtime: Option<Handle>,
    tasks: Mutex<JoinSet<()>>,
    traces: OnceLock<Arc<Traces>>,
    is_closed: AtomicBool,
    pending: Mutex<PendingTasks>,
    /// Notifies when a task has ended.
    ended: Notify,
    done: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    /// The time of the last log message about dropped tasks.
    last_logged: Mutex<Option<Instant>>,
}

/// The tasks that are queued or running.
#[derive(Default)]
struct PendingTasks {
    all: Load,
    running: usize,
    of_plugins: BTreeMap<Box<str>, PluginTasks>,
}

#[derive(Clone, Copy, Default)]
struct Load {
    tasks: usize,
    bytes: usize,
}

/// The tasks of one plugin.
#[derive(Default)]
struct PluginTasks {
    load: Load,
    running: usize,
    /// The tasks that wait for their turn, in order.
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl PendingTasks {
    /// Adds a task of a plugin. Returns the signal of its start, or the reason for its rejection: a plugin may use
    /// as much of the queue as it leaves free for others.
    fn add(&mut self, plugin: &str, bytes: usize) -> Result<oneshot::Receiver<()>, String> {
        let (all, own) = (self.all, self.of_plugins.get(plugin).map_or(Load::default(), |own| own.load));
        let free =
            Load { tasks: MAX_PENDING.saturating_sub(all.tasks), bytes: MAX_BYTES.saturating_sub(all.bytes) };
        if own.tasks >= free.tasks || own.bytes + bytes > free.bytes && all.tasks > 0 {
            return Err(format!(
                "it has {} tasks of {} MiB in the queue, which has room for {} more of {} MiB from all plugins",
                own.tasks,
                own.bytes >> 20,
                free.tasks,
                free.bytes >> 20
            ));
        }
        self.all = Load { tasks: all.tasks + 1, bytes: all.bytes + bytes };
        let tasks = self.of_plugins.entry(plugin.into()).or_default();
        tasks.load = Load { tasks: own.tasks + 1, bytes: own.bytes + bytes };
        let (start, started) = oneshot::channel();
        tasks.waiting.push_back(start);
        self.start_tasks();
        Ok(started)
    }

    /// Starts waiting tasks, those of plugins with the fewest running ones first. A plugin may run as many tasks as it
    /// leaves free for others.
    fn start_tasks(&mut self) {
        while let Some(free) = AT_A_TIME.checked_sub(self.running).filter(|free| *free > 0) {
            let waiting = self.of_plugins.values_mut().filter(|own| !own.waiting.is_empty());
            let next = waiting.min_by_key(|own| own.running).filter(|own| own.running < free);
            let Some((own, start)) = next.and_then(|own| own.waiting.pop_front().map(|start| (own, start)))
            else {
                return;
            };
            // A task that was canceled meanwhile leaves its place to the next one.
            if start.send(()).is_ok() {
                own.running += 1;
                self.running += 1;
            }
        }
    }

    /// Removes a task that has ended, or that was canceled before it started.
    fn remove(&mut self, plugin: &str, bytes: usize, has_started: bool) {
        self.all = Load { tasks: self.all.tasks - 1, bytes: self.all.bytes - bytes };
        if let Some(own) = self.of_plugins.get_mut(plugin) {
            own.load = Load { tasks: own.load.tasks - 1, bytes: own.load.bytes - bytes };
            if has_started {
                own.running -= 1;
                self.running -= 1;
            }
            if own.load.tasks == 0 {
                self.of_plugins.remove(plugin);
            }
        }
        self.start_tasks();
    }
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
            traces: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            pending: Mutex::default(),
            ended: Notify::new(),
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
            pending: self.pending(),
            done: self.done.load(SeqCst),
            failed: self.failed.load(SeqCst),
            dropped: self.dropped.load(SeqCst),
        }
    }

    fn pending(&self) -> usize {
        self.pending.lock().all.tasks
    }

    /// Waits until no task is queued or running.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.pending() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Rejects new tasks, and cancels those that are running.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, SeqCst);
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let left = self.pending();
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

    async fn work(self: Arc<Self>, work: Work, started: oneshot::Receiver<()>) {
        let (plugin, what) = (work.plugin.clone(), work.what);
        let mut pending = Pending {
            queue: self.clone(),
            plugin: (&*plugin).into(),
            bytes: work.bytes,
            started,
            has_started: false,
            is_done: false,
        };
        if (&mut pending.started).await.is_err() {
            return;
        }
        pending.has_started = true;
        let recording = self.traces.get().map(|traces| {
            let [model, user, chat_id] = work.origin.clone();
            let request_facts =
                RequestFacts { endpoint: what, model, user, chat_id, ..RequestFacts::default() };
            let mut recording = traces.begin(request_facts, false);
            work.counting.begin(&mut recording);
            recording
        });
        let trace = recording.as_ref().map(|recording| recording.trace().clone());
        let result = work.run(trace).await;
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
        let added = self.pending.lock().add(&work.plugin, work.bytes);
        let started = match added {
            Ok(started) => started,
            Err(why) => return self.drop_work(&work, &why),
        };
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(own.work(work, started), runtime);
    }
}

/// A task in progress; it counts as failed if it is dropped.
struct Pending {
    queue: Arc<AfterAnswers>,
    plugin: Box<str>,
    bytes: usize,
    started: oneshot::Receiver<()>,
    has_started: bool,
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
        // The signal may have been sent although nobody has received it yet.
        let has_started = self.has_started || self.started.try_recv().is_ok();
        self.queue.pending.lock().remove(&self.plugin, self.bytes, has_started);
        self.queue.ended.notify_waiters();
    }
}

impl fmt::Debug for AfterAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AfterAnswers").field(&self.counts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds tasks of a plugin until one is refused. Returns the signals of their starts.
    fn fill(tasks: &mut PendingTasks, plugin: &str, bytes: usize) -> Vec<oneshot::Receiver<()>> {
        (0..).map_while(|_| tasks.add(plugin, bytes).ok()).collect()
    }

    fn running(signals: &mut [oneshot::Receiver<()>]) -> usize {
        signals.iter_mut().filter_map(|signal| signal.try_recv().ok()).count()
    }

    #[test]
    fn plugins_that_add_all_they_can_leave_room_for_the_next_one() {
        let mut tasks = PendingTasks::default();
        let mut first = fill(&mut tasks, "first", 0);
        let mut second = fill(&mut tasks, "second", 0);
        let mut third = fill(&mut tasks, "third", 0);
        assert_eq!([first.len(), second.len(), third.len()], [256, 128, 64]);
        assert_eq!([running(&mut first), running(&mut second), running(&mut third)], [8, 4, 2]);
        let refused = tasks.add("first", 0).unwrap_err();
        assert!(refused.contains("256 tasks of 0 MiB") && refused.contains("room for 64 more"), "{refused}");
        let mut fourth = fill(&mut tasks, "fourth", 0);
        let mut fifth = fill(&mut tasks, "fifth", 0);
        assert_eq!([running(&mut fourth), running(&mut fifth)], [1, 1]);
        // All places are taken: the next free one belongs to a plugin without a running task.
        let mut sixth = fill(&mut tasks, "sixth", 0);
        assert_eq!(running(&mut sixth), 0);
        tasks.remove("first", 0, true);
        assert_eq!([running(&mut sixth), running(&mut first)], [1, 0]);
    }

    #[test]
    fn a_task_that_is_canceled_before_its_start_leaves_its_place_to_the_next() {
        let mut tasks = PendingTasks::default();
        let mut signals = fill(&mut tasks, "only", 0);
        assert_eq!(running(&mut signals), 8);
        drop(signals.remove(8));
        tasks.remove("only", 0, false);
        tasks.remove("only", 0, true);
        assert_eq!(running(&mut signals[8..]), 1);
        (0..254).for_each(|_| tasks.remove("only", 0, false));
        assert!(tasks.of_plugins.is_empty());
    }

    #[test]
    fn the_memory_of_tasks_is_shared_in_the_same_way() {
        let mut tasks = PendingTasks::default();
        assert_eq!(fill(&mut tasks, "first", 4 << 20).len(), 16);
        assert_eq!(fill(&mut tasks, "second", 4 << 20).len(), 8);
        assert!(tasks.add("third", 16 << 20).is_ok());
        // A single task may use all of it.
        assert!(PendingTasks::default().add("first", MAX_BYTES).is_ok());
    }
}
