//! The host: the current snapshot, and the one writer that replaces it.

use crate::access::IssuedKeys;
use crate::background::AfterAnswers;
use crate::plan::{MountedOffers, Plan};
use crate::reload::clock::{Due, Until, Wait};
use crate::reload::scan::Outcome;
use crate::reload::scripts::RefusedGeneration;
use crate::reload::state::Reload;
use crate::report::{Looks, Report};
use crate::snapshot::Snapshot;
use crate::status::{NodeStatus, SharedStatus};
use crate::temporary_files;
use crate::writer::ReloadLock;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Mutex, broadcast, watch};
use tokio::time::Instant;
use valvehouse_core::trace::Traces;
use valvehouse_core::valve::SecretGroup;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, ScheduledCall, Script, SourceFile, Watch};
use valvehouse_store::{Kv, Store, StoreError, VectorIndex, now};

/// The interval at which the generation of the store is read.
const STORE_POLL: Duration = Duration::from_millis(100);
/// The interval for a store that hosts share. The exchange of kv entries returns the generation as well,
/// usually sooner.
const SHARED_STORE_POLL: Duration = Duration::from_millis(250);
/// The minimum time between two writes of kv entries, so that a loop of `kv::set` causes few of them.
const KV_PAUSE: Duration = Duration::from_millis(5);
/// The maximum delay of a `kv` write with `durable: false`. A crash can lose the writes of this period.
const KV_DELAY: Duration = Duration::from_millis(100);
/// The interval at which a host checks whether a snapshot of the store is due.
const SNAPSHOT_POLL: Duration = Duration::from_millis(200);
/// The interval at which expired entries are deleted from a store that hosts share.
const KV_CLEAR: Duration = Duration::from_secs(60);
/// The interval at which the write-ahead log of the store is written to its file.
const STORE_FILE: Duration = Duration::from_secs(60);
/// The interval of the heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The running plugins and models, replaced as one snapshot.
pub struct Host {
    id: String,
    current: ArcSwap<Snapshot>,
    writer: Mutex<Reload>,
    store: Arc<Store>,
    kv: Arc<Kv>,
    vectors: VectorIndex,
    secrets: SecretGroup,
    issued_keys: Arc<IssuedKeys>,
    /// The generation of the store at the last exchange of kv entries.
    exchanged: watch::Sender<u64>,
    /// The generation of the store that the current snapshot is based on.
    applied: AtomicU64,
    /// The time at which that generation was applied, in milliseconds since 1970.
    applied_at: AtomicI64,
    /// Set while the snapshot cannot be written.
    has_no_snapshot: AtomicBool,
    /// The generation of the store that this host rejected.
    refused: parking_lot::Mutex<Option<RefusedGeneration>>,
    reports: broadcast::Sender<Arc<Report>>,
    /// Notifies whenever the generation of the store is read.
    store_looks: watch::Sender<()>,
    /// The last announced status of the plugins.
    last_status: parking_lot::Mutex<Json>,
    looks: Looks,
    after: Arc<AfterAnswers>,
    /// The traces that the coverage table is computed from.
    traces: OnceLock<Arc<Traces>>,
}

impl Host {
    /// Opens a host and loads everything once.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn open(plan: Plan, store: Arc<Store>) -> Result<Arc<Self>, StoreError> {
        let exchanged = watch::Sender::new(0);
        let kv = Arc::new(open_kv(&store, &exchanged).await?);
        let mut writer = Reload::new(Arc::new(plan), store.clone(), kv.clone()).await?;
        // The settings of operators are needed from the first request on, because guards may depend on them.
        writer.read_store().await?;
        let first = writer.look(None).await;
        let (snapshot, report) = first.next.unwrap_or_else(|| (writer.empty(), Report::default()));
        writer.save(&snapshot, &report.changes).await;
        writer.record_lost(&snapshot).await;
        let id = format!("{}-{}", host_name(), uuid::Uuid::new_v4());
        let (reports, _) = broadcast::channel(64);
        let (asking, after) = (writer.compiler.asking.clone(), writer.compiler.after.clone());
        let (vectors, secrets) = (writer.compiler.vectors.clone(), writer.compiler.secrets.clone());
        let issued_keys = writer.issued_keys.clone();
        let refused = parking_lot::Mutex::new(writer.refused.clone());
        let host = Self {
            id,
            current: ArcSwap::from_pointee(snapshot),
            writer: Mutex::new(writer),
            store,
            kv,
            vectors,
            secrets,
            issued_keys,
            exchanged,
            applied: AtomicU64::new(first.stored_generation.unwrap_or(0)),
            applied_at: AtomicI64::new(now()),
            has_no_snapshot: AtomicBool::new(false),
            refused,
            reports,
            store_looks: watch::Sender::new(()),
            last_status: parking_lot::Mutex::default(),
            looks: Looks::default(),
            after,
            traces: OnceLock::new(),
        };
        host.looks.looked(Some(&report));
        let host = Arc::new(host);
        let weak = Arc::downgrade(&host);
        asking.at(move || Some(weak.upgrade()?.snapshot()));
        Ok(host)
    }

    /// Returns the snapshot that a host would run now. The store is not changed.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn peek(plan: Plan, store: Arc<Store>) -> Result<Snapshot, StoreError> {
        let mut reader = Reload::new(Arc::new(plan), store, Arc::default()).await?;
        reader.removed.only_looks = true;
        let first = reader.look(None).await;
        Ok(first.next.map_or_else(|| reader.empty(), |(snapshot, _)| snapshot))
    }

    /// Returns the current snapshot; a turn uses one snapshot until its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Returns the id of this host among the hosts of its store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the secrets of all running plugins and of their users, for redaction.
    pub(crate) fn secrets(&self) -> &SecretGroup {
        &self.secrets
    }

    /// Returns the keys that operators handed out, which follow the store.
    pub fn issued_keys(&self) -> &Arc<IssuedKeys> {
        &self.issued_keys
    }

    /// Returns the vectors of scripts and the memories of users.
    pub fn vectors(&self) -> &VectorIndex {
        &self.vectors
    }

    /// Sets the traces that the coverage of guards is computed from.
    pub(crate) fn reports_coverage_of(&self, traces: Arc<Traces>) {
        // A host sets its traces once.
        let _ = self.traces.set(traces);
        self.count_coverage(&self.snapshot());
    }

    /// Enables the counting of requests if there is a guard.
    fn count_coverage(&self, snapshot: &Snapshot) {
        if let Some(traces) = self.traces.get() {
            traces.coverage().count(!snapshot.guards().is_empty());
        }
    }

    /// Returns the queue of tasks that scripts run after their answers.
    pub fn after_answers(&self) -> &AfterAnswers {
        &self.after
    }

    /// Returns the generation of the store that is completely applied.
    pub fn applied_generation(&self) -> u64 {
        let applied = self.applied.load(Relaxed);
        match &*self.refused.lock() {
            Some(refused) if refused.generation <= applied => refused.generation.saturating_sub(1),
            _ => applied,
        }
    }

    /// Returns the latest generation of the store and the reason for its rejection; `None` if this host
    /// applied it.
    pub fn refused(&self) -> Option<RefusedGeneration> {
        self.refused.lock().clone()
    }

    /// Subscribes to the reports of reloads.
    pub fn reports(&self) -> broadcast::Receiver<Arc<Report>> {
        self.reports.subscribe()
    }

    /// Returns a receiver that is notified whenever this host checks its store: on notifications of the
    /// store, and up to ten times per second. Tasks that wait for a row of the store check it then.
    pub fn store_looks(&self) -> watch::Receiver<()> {
        self.store_looks.subscribe()
    }

    /// Returns the counts and durations of the scans of folders and store.
    pub fn looks(&self) -> &Looks {
        &self.looks
    }

    /// Returns the kv maps of scripts.
    pub fn kv(&self) -> &Kv {
        &self.kv
    }

    /// Returns the kv maps of scripts for a use that outlives this host.
    pub(crate) fn shared_kv(&self) -> Arc<Kv> {
        self.kv.clone()
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Locks the writer and reads the stored settings. The snapshot cannot change until the lock is dropped.
    /// Changes made meanwhile go live with the next [`reload`](Self::reload).
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn writer(&self) -> Result<ReloadLock<'_>, StoreError> {
        ReloadLock::held(self.writer.lock().await).await
    }

    /// Replaces the plan; the folders must be the same. Changes of models, providers and plugins go live in
    /// one step.
    pub async fn replan(&self, plan: Plan) -> Arc<Snapshot> {
        {
            let mut writer = self.writer.lock().await;
            let mounted = writer.plan.mounted.clone();
            writer.plan = Arc::new(Plan { mounted, ..plan });
        }
        self.reload().await
    }

    /// Replaces the tools of mounted servers.
    pub async fn mount(&self, mounted: MountedOffers) -> Arc<Snapshot> {
        {
            let mut writer = self.writer.lock().await;
            writer.plan = Arc::new(Plan { mounted, ..(*writer.plan).clone() });
        }
        self.reload().await
    }

    /// Keeps the current plan, and reports the problems of the settings that should have replaced it.
    pub async fn keep_plan(&self, problems: Vec<Diagnostic>) -> Arc<Snapshot> {
        {
            let mut writer = self.writer.lock().await;
            if writer.plan.problems != problems {
                writer.plan = Arc::new(Plan { problems, ..(*writer.plan).clone() });
            }
        }
        self.reload().await
    }

    /// Stores the list that a function of a plugin returned, or the reason why the call failed.
    pub(crate) async fn set_list(&self, id: &str, what: ScheduledCall, result: Result<Json, String>) {
        let is_news = self.writer.lock().await.set_list(id, what, result);
        if is_news {
            self.reload().await;
        }
    }

    /// Compiles a script of any folder with the settings of its id.
    ///
    /// # Errors
    /// Returns every problem of the script.
    pub async fn compile(&self, file: &SourceFile) -> Result<Script, Vec<Diagnostic>> {
        let writer = self.writer.lock().await;
        writer.compile(file, &writer.given(&file.id))
    }

    /// Waits until the last snapshot is recorded in the store, which happens after it goes live.
    pub async fn written_down(&self) {
        drop(self.writer.lock().await);
    }

    /// Scans folders and store now. Concurrent calls wait for each other. A file that takes long to compile
    /// goes live by a later scan.
    pub async fn reload(&self) -> Arc<Snapshot> {
        self.settle(Until::Quick).await;
        self.snapshot()
    }

    /// Like [`Host::reload`], but waits until the file of one plugin is compiled, however long that takes.
    pub async fn reload_with(&self, id: &str) -> Arc<Snapshot> {
        self.settle(Until::Compiled(id)).await;
        self.snapshot()
    }

    /// Scans until the goal is reached.
    // Boxed, so that the future is compiled once here and not in each dependent package.
    fn settle<'a>(&'a self, until: Until<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            while let Some(delay) = self.look().await.after(&until) {
                tokio::time::sleep(delay).await;
            }
        })
    }

    /// Scans once. Returns the time of the next scan.
    async fn look(&self) -> Due {
        let mut writer = self.writer.lock().await;
        let current = self.snapshot();
        let Outcome { next, stored_generation, mut due } = writer.look(Some(&current)).await;
        // A snapshot goes live before it is recorded, because writing takes time.
        match next {
            Some((snapshot, report)) => {
                let (snapshot, report) = (Arc::new(snapshot), Arc::new(report));
                self.current.store(snapshot.clone());
                self.looks.looked(Some(&report));
                // The report may have no receivers.
                let _ = self.reports.send(report.clone());
                writer.save(&snapshot, &report.changes).await;
            }
            None => {
                self.looks.looked(None);
                writer.save(&current, &[]).await;
            }
        }
        self.refused.lock().clone_from(&writer.refused);
        if let Some(applied) = stored_generation {
            if self.applied.swap(applied, Relaxed) != applied {
                self.applied_at.store(now(), Relaxed);
            }
            self.announce().await;
        }
        due.wait = due.wait.or(writer.is_behind().then_some(Wait::Recording));
        due
    }

    /// Follows folders and store until the future is dropped.
    pub async fn follow(self: Arc<Self>) {
        tokio::join!(
            self.follow_folders(),
            self.follow_store(),
            self.keep_kv(),
            self.keep_snapshot(),
            self.complete_store_file(),
            self.clear_temporary_files()
        );
    }

    /// Keeps the file of the store nearly complete without its write-ahead log, in case it is copied alone.
    async fn complete_store_file(&self) {
        loop {
            tokio::time::sleep(STORE_FILE).await;
            self.store.complete_file().await;
        }
    }

    /// Removes temporary files that killed processes left in the folders.
    async fn clear_temporary_files(&self) {
        let folders = self.snapshot().plan().folders();
        loop {
            let folders = folders.clone();
            let cleared = tokio::task::spawn_blocking(move || {
                folders.iter().for_each(|folder| temporary_files::clear(folder, temporary_files::ABANDONED));
            });
            if let Err(error) = cleared.await {
                tracing::debug!("cannot clear temporary files: {error}");
            }
            tokio::time::sleep(temporary_files::ABANDONED).await;
        }
    }

    async fn follow_folders(&self) {
        let mut watch = Watch::new(self.snapshot().plan().watched());
        loop {
            watch.tick().await;
            self.settle(Until::Complete).await;
        }
    }

    /// Follows the store, and sends a periodic heartbeat with the generation of this host.
    async fn follow_store(&self) {
        let mut poll =
            tokio::time::interval(if self.store.is_shared() { SHARED_STORE_POLL } else { STORE_POLL });
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut exchanged = self.exchanged.subscribe();
        let (mut applied, mut was_away) = (None, false);
        let mut announced = Instant::now();
        loop {
            let read = tokio::select! {
                Ok(()) = exchanged.changed() => {
                    poll.reset();
                    Some(*exchanged.borrow_and_update())
                }
                _ = poll.tick() => None,
                () = self.store.changed() => None,
            };
            self.store_looks.send_replace(());
            let is_away = self.store.outage().is_some();
            let generation = match read {
                // A lower generation was read earlier than the last one.
                Some(generation) if applied.is_none_or(|applied| generation >= applied) => Ok(generation),
                _ => self.store.generation().await,
            };
            let news = match generation {
                Ok(generation) => applied.replace(generation) != Some(generation),
                Err(_) => false,
            };
            let news = std::mem::replace(&mut was_away, is_away) != is_away || news;
            if news {
                self.reload().await;
            } else if announced.elapsed() > HEARTBEAT {
                self.announce().await;
            } else {
                continue;
            }
            announced = Instant::now();
        }
    }

    /// Returns the generation that this host serves, also after a restart without its database: a generation counts
    /// once its snapshot is on disk, unless snapshots cannot be written.
    fn recorded_generation(&self) -> u64 {
        let applied = self.applied_generation();
        match self.store.snapshot() {
            Some(written) if !self.has_no_snapshot.load(Relaxed) => applied.min(written.generation),
            _ => applied,
        }
    }

    async fn announce(&self) {
        let applied = self.recorded_generation();
        let snapshot = self.snapshot();
        self.count_coverage(&snapshot);
        let coverage = self.traces.get().map(|traces| traces.coverage());
        let refused = self.refused();
        let node = NodeStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: self.applied_at.load(Relaxed),
            refused: refused.as_ref().map(|refused| refused.generation),
            error: refused.map(|refused| refused.message()),
        };
        let tells = SharedStatus::of_snapshot(&snapshot, coverage, &node);
        let news = (tells != *self.last_status.lock()).then_some(&tells);
        match self.store.announce(&self.id, std::process::id(), applied, news).await {
            Ok(()) => *self.last_status.lock() = tells,
            Err(error) => tracing::debug!("cannot announce this host in the store: {error}"),
        }
    }

    /// Writes kv entries: immediately if a turn waits for them, else after a short delay. A turn that ends
    /// earlier writes its own entries.
    async fn keep_kv(&self) {
        let (mut exchanged, mut cleared) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = self.kv.flush_requested() => {}
                () = tokio::time::sleep(KV_DELAY) => {}
            }
            let is_written = self.write_kv().await;
            if self.store.is_shared() && is_written && exchanged.elapsed() >= KV_DELAY {
                exchanged = Instant::now();
                if let Err(error) = self.kv.exchange().await {
                    tracing::debug!("cannot read the kv entries of other hosts: {error}");
                }
            }
            if self.store.is_shared() && cleared.elapsed() >= KV_CLEAR {
                cleared = Instant::now();
                if let Err(error) = self.store.kv_clear().await {
                    tracing::debug!("cannot delete expired kv entries: {error}");
                }
            }
            tokio::time::sleep(if is_written { KV_PAUSE } else { KV_DELAY }).await;
        }
    }

    /// Writes each completely applied generation to a local snapshot, from which this host can start while
    /// the store is unavailable.
    async fn keep_snapshot(&self) {
        loop {
            tokio::time::sleep(SNAPSHOT_POLL).await;
            if self.refused().is_some() {
                continue;
            }
            let before = self.recorded_generation();
            match self.store.save_snapshot(self.applied.load(Relaxed)).await {
                Ok(true) => self.has_no_snapshot.store(false, Relaxed),
                Err(error) if self.store.outage().is_none() => {
                    if !self.has_no_snapshot.swap(true, Relaxed) {
                        tracing::warn!(
                            "cannot write the snapshot, without which this host cannot start while its database is unavailable: {error}"
                        );
                    }
                }
                Ok(false) | Err(_) => {}
            }
            // A snapshot that differs only in kv entries leaves the generation as it is.
            if self.recorded_generation() != before {
                self.announce().await;
            }
        }
    }

    /// Returns `true` if all entries are written.
    async fn write_kv(&self) -> bool {
        let failed_before = self.kv.failure().is_some();
        let written = self.kv.flush_all().await;
        match &written {
            Ok(()) if failed_before => tracing::info!("kv entries of scripts are written to the store again"),
            Err(error) if !failed_before => {
                tracing::warn!("cannot write kv entries of scripts to the store, retrying: {error}");
            }
            _ => {}
        }
        written.is_ok()
    }

    /// Writes pending changes and deregisters from the store.
    pub async fn close(&self) {
        self.write_kv().await;
        if let Err(error) = self.store.leave(&self.id).await {
            tracing::debug!("cannot deregister from the store: {error}");
        }
    }
}

/// Loads the kv maps of all scripts. Each exchange also returns the generation of the store.
async fn open_kv(store: &Arc<Store>, exchanged: &watch::Sender<u64>) -> Result<Kv, StoreError> {
    // The mark is read before the entries, so that concurrent writes are part of the first exchange.
    let mark = store.kv_news(u64::MAX).await?.mark;
    let behind = store.clone();
    let kv = Kv::load(store.kv_all().await?).written_by(move |changes| {
        let store = behind.clone();
        Box::pin(async move { store.kv_write(&changes).await })
    });
    if !store.is_shared() {
        return Ok(kv);
    }
    let (behind, exchanged) = (store.clone(), exchanged.clone());
    let kv = kv.shared(mark, move |since| {
        let (store, exchanged) = (behind.clone(), exchanged.clone());
        Box::pin(async move {
            let news = store.kv_news(since).await?;
            exchanged.send_replace(news.generation);
            Ok(news)
        })
    });
    let behind = store.clone();
    Ok(kv.swapped_by(move |before, change| {
        let store = behind.clone();
        Box::pin(async move { store.kv_swap(&before, &change).await })
    }))
}

/// Returns the name of this computer, which lists of hosts show.
fn host_name() -> String {
    let name = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    let name = name.unwrap_or_default();
    let name: String = name.trim().chars().filter(|letter| !letter.is_control()).take(64).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}
