//! Scheduled calls of scripts: `tick()`, and lists that are fetched in the background.
//!
//! A tick runs on one of the hosts that share a store: the one with the lease, which lasts until the next
//! tick is due. Each host fetches lists itself, and uses the last valid one.

use crate::host::Host;
use crate::plugin::{OperatorSettings, Plugin, State};
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use valvehouse_core::error::PluginError;
use valvehouse_core::trace::{RequestFacts, Traces};
use valvehouse_json::Json;
use valvehouse_script::{ScheduledCall, Script};

/// The maximum number of calls that run at a time.
const AT_A_TIME: usize = 8;
/// The maximum time added between two calls, so that scripts do not all run at once.
const MAX_JITTER: Duration = Duration::from_secs(60);
/// The maximum delay of the first tick of a script.
const FIRST_TICK: Duration = Duration::from_secs(5);
/// The initial delay before a failed list is fetched again; it doubles up to the interval of the list.
const RETRY: Duration = Duration::from_secs(5);
/// The maximum interval at which the lease of a tick is requested while another host has it.
const MAX_LEASE_POLL: Duration = Duration::from_secs(30);
/// The duration of a tick's lease, which exceeds the time limit of a tick.
const LEASE: Duration = Duration::from_secs(330);
/// The prefix of the names of anonymous functions.
const ANONYMOUS: &str = "anon$";

/// A scheduled function of a plugin.
type Key = (Arc<str>, ScheduledCall);

/// Runs the scheduled calls of scripts.
pub struct Schedule {
    host: Arc<Host>,
    traces: Arc<Traces>,
    stopping: watch::Sender<bool>,
    /// The lock that is held while calls are made.
    following: tokio::sync::Mutex<()>,
    /// The leases of the ticks that run on this host.
    leases: Mutex<BTreeSet<String>>,
    running: AtomicUsize,
    done: AtomicU64,
    failed: AtomicU64,
}

/// The numbers of calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleCounts {
    /// Calls in progress.
    pub running: usize,
    /// Calls that succeeded.
    pub done: u64,
    /// Calls that failed or returned an invalid list.
    pub failed: u64,
}

/// A scheduled function and its next call.
struct Entry {
    script: Arc<Script>,
    incarnation: u64,
    every: Duration,
    /// The hash of the script's text, and its settings.
    version: (Arc<str>, OperatorSettings),
    due: Instant,
    is_running: bool,
    /// The number of consecutive failures.
    failures: u32,
}

/// One call.
struct Job {
    key: Key,
    script: Arc<Script>,
    incarnation: u64,
    every: Duration,
    version: (Arc<str>, OperatorSettings),
    began: Instant,
}

/// The outcome of a call.
struct CallEnd {
    key: Key,
    version: (Arc<str>, OperatorSettings),
    /// The time until the next call; `None` if the call failed.
    pause: Option<Duration>,
}

impl Schedule {
    /// Creates the schedule of a host; its calls are recorded in these traces.
    pub(crate) fn new(host: Arc<Host>, traces: Arc<Traces>) -> Arc<Self> {
        Arc::new(Self {
            host,
            traces,
            stopping: watch::Sender::new(false),
            following: tokio::sync::Mutex::default(),
            leases: Mutex::default(),
            running: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// Returns the numbers of calls.
    pub fn counts(&self) -> ScheduleCounts {
        ScheduleCounts {
            running: self.running.load(SeqCst),
            done: self.done.load(SeqCst),
            failed: self.failed.load(SeqCst),
        }
    }

    /// Calls due functions until it is stopped.
    pub(crate) async fn follow(self: Arc<Self>) {
        let _following = self.following.lock().await;
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            () = self.work() => {}
            // Running calls are dropped, which cancels them.
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
        let leases = std::mem::take(&mut *self.leases.lock());
        for name in leases {
            self.release(&name, Duration::ZERO).await;
        }
    }

    /// Starts no more calls, cancels the running ones, and releases their leases.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        drop(self.following.lock().await);
    }

    /// Fetches each list that has not been loaded yet, and waits until all are loaded or failed.
    pub(crate) async fn fetch_lists(&self) {
        let mut entries = BTreeMap::new();
        self.follow_snapshot(&mut entries);
        let wanted = entries.iter().filter(|((_, what), _)| *what != ScheduledCall::Tick);
        join_all(wanted.map(|(key, entry)| self.call(job(key, entry)))).await;
    }

    async fn work(&self) {
        let mut news = self.host.reports();
        let (mut entries, mut running) = (BTreeMap::new(), FuturesUnordered::new());
        self.follow_snapshot(&mut entries);
        self.restore_lists(&entries).await;
        loop {
            self.follow_snapshot(&mut entries);
            let now = Instant::now();
            for (key, entry) in &mut entries {
                if !entry.is_running && entry.due <= now && running.len() < AT_A_TIME {
                    entry.is_running = true;
                    running.push(self.call(job(key, entry)));
                }
            }
            let is_full = running.len() >= AT_A_TIME;
            let waiting = entries.values().filter(|entry| !entry.is_running && !is_full);
            let next = waiting.map(|entry| entry.due).min();
            let due = async {
                match next {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // A lagging receiver loses nothing, because the current snapshot is read.
                _ = news.recv() => {}
                Some(finished) = running.next() => finish(&mut entries, finished),
                () = due => {}
            }
        }
    }

    /// Applies the changes of the current snapshot.
    fn follow_snapshot(&self, entries: &mut BTreeMap<Key, Entry>) {
        let snapshot = self.host.snapshot();
        let mut kept = BTreeSet::new();
        for plugin in snapshot.plugins.values().filter(|plugin| is_called(plugin)) {
            let Some(script) = &plugin.script else { continue };
            for (what, every) in script.scheduled() {
                let key = (plugin.id.clone(), what);
                let version = (plugin.hash.clone(), plugin.given.without_lists());
                match entries.get_mut(&key) {
                    Some(entry) => {
                        // Another text may return another list.
                        if entry.every != every || what != ScheduledCall::Tick && entry.version != version {
                            entry.due = Instant::now();
                            entry.failures = 0;
                        }
                        (entry.script, entry.every, entry.version) = (script.clone(), every, version);
                        entry.incarnation = plugin.incarnation;
                    }
                    None => {
                        let delay = match what {
                            ScheduledCall::Tick => FIRST_TICK.min(every / 10).mul_f64(fastrand::f64()),
                            ScheduledCall::Pipes | ScheduledCall::Tools => Duration::ZERO,
                        };
                        let entry = Entry {
                            script: script.clone(),
                            incarnation: plugin.incarnation,
                            every,
                            version,
                            due: Instant::now() + delay,
                            is_running: false,
                            failures: 0,
                        };
                        entries.insert(key.clone(), entry);
                    }
                }
                kept.insert(key);
            }
        }
        entries.retain(|key, _| kept.contains(key));
    }

    /// Restores the lists that this host, or another host of the store, fetched last.
    async fn restore_lists(&self, entries: &BTreeMap<Key, Entry>) {
        for ((id, what), entry) in entries.iter().filter(|((_, what), _)| *what != ScheduledCall::Tick) {
            let name = name_of(id, *what, entry.incarnation);
            let text = self.host.store().secret(&name).await.unwrap_or_else(|error| {
                tracing::debug!("cannot read the stored list of {id}: {error}");
                None
            });
            if let Some(list) = text.and_then(|text| Json::parse(text.as_bytes()).ok()) {
                self.host.set_list(id, *what, Ok(list)).await;
            }
        }
    }

    async fn call(&self, job: Job) -> CallEnd {
        let (id, what) = &job.key;
        let next = job.every + MAX_JITTER.min(job.every / 10).mul_f64(fastrand::f64());
        let lease = format!("{}/{}", name_of(id, *what, job.incarnation), job.every.as_secs());
        if *what == ScheduledCall::Tick && !self.take(&lease).await {
            let pause = MAX_LEASE_POLL.min(job.every / 10).max(Duration::from_secs(1));
            return CallEnd { key: job.key, version: job.version, pause: Some(pause) };
        }
        self.running.fetch_add(1, SeqCst);
        let _running = Running(&self.running);
        let request_facts = RequestFacts {
            endpoint: what.as_str(),
            generation: self.host.snapshot().generation,
            ..RequestFacts::default()
        };
        let mut recording = self.traces.begin(request_facts, false);
        let result = job.script.run_scheduled(*what, Some(recording.trace().clone())).await;
        let pause = match &result {
            Ok(_) => {
                self.done.fetch_add(1, SeqCst);
                recording.answered(200);
                Some(next)
            }
            Err(PluginError { cause, .. }) => {
                self.failed.fetch_add(1, SeqCst);
                tracing::error!(plugin = &**id, hook = what.as_str(), "a background call failed: {cause}");
                recording.failed(cause);
                recording.answered(500);
                (*what == ScheduledCall::Tick).then_some(next)
            }
        };
        recording.done();
        let pause = pause.map(|pause| pause.saturating_sub(job.began.elapsed()));
        if *what == ScheduledCall::Tick {
            self.release(&lease, pause.unwrap_or(Duration::ZERO)).await;
            // A stop releases the leases that are registered here, in case this call is dropped before it can
            // do so.
            self.leases.lock().remove(&lease);
        } else if let Ok(list) = &result {
            self.keep(&name_of(id, *what, job.incarnation), list).await;
        }
        self.host.set_list(id, *what, result.map_err(|failure| failure.cause)).await;
        CallEnd { key: job.key, version: job.version, pause }
    }

    /// Takes the lease of a tick, unless another host has it.
    async fn take(&self, name: &str) -> bool {
        // Registered first: this call may be dropped after the store has granted the lease and before it
        // returns.
        self.leases.lock().insert(name.to_owned());
        let taken = self.host.store().lease_secret(name, self.host.id(), ms(LEASE)).await;
        let is_taken = taken.unwrap_or_else(|error| {
            tracing::warn!("cannot take the lease of {name}: {error}");
            false
        });
        if !is_taken {
            self.leases.lock().remove(name);
        }
        is_taken
    }

    /// Releases the lease of a tick after a delay.
    async fn release(&self, name: &str, after: Duration) {
        if let Err(error) = self.host.store().lease_secret(name, self.host.id(), ms(after)).await {
            tracing::debug!("cannot release the lease of {name}; it will expire: {error}");
        }
    }

    /// Stores a list for the next start. It is sealed, because it may contain private data of a service.
    async fn keep(&self, name: &str, list: &Json) {
        // An anonymous function has another name in another process.
        let text = Some(list.to_string()).filter(|text| !text.contains(ANONYMOUS));
        if let Err(error) = self.host.store().set_secret(name, text.as_deref()).await {
            tracing::debug!("cannot store {name}: {error}");
        }
    }
}

/// The count of running calls, which is decremented when this is dropped.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Returns `true` if the scheduled functions of a plugin are called.
fn is_called(plugin: &Plugin) -> bool {
    plugin.enabled && plugin.state != State::Missing && !plugin.is_idle()
}

fn job(key: &Key, entry: &Entry) -> Job {
    Job {
        key: key.clone(),
        script: entry.script.clone(),
        incarnation: entry.incarnation,
        every: entry.every,
        version: entry.version.clone(),
        began: Instant::now(),
    }
}

fn finish(entries: &mut BTreeMap<Key, Entry>, finished: CallEnd) {
    let Some(entry) = entries.get_mut(&finished.key) else { return };
    entry.is_running = false;
    let is_outdated = finished.key.1 != ScheduledCall::Tick && entry.version != finished.version;
    let pause = match finished.pause {
        // The text changed during the call, so the list is outdated.
        _ if is_outdated => Duration::ZERO,
        Some(pause) => {
            entry.failures = 0;
            pause
        }
        None => {
            entry.failures += 1;
            RETRY.saturating_mul(1 << (entry.failures - 1).min(16)).min(entry.every)
        }
    };
    entry.due = Instant::now() + pause;
}

/// Returns the name of a scheduled function in the store.
fn name_of(id: &str, what: ScheduledCall, incarnation: u64) -> String {
    format!("{}/{id}/{incarnation}", what.as_str())
}

fn ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
