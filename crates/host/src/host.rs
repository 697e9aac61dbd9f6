//! The host: the snapshot in force and the one writer that replaces it.

use crate::background::AfterAnswers;
use crate::plan::{MountedOffers, Plan};
use crate::reload::look::{NEXT_LOOK, WHILE_COMPILING};
use crate::reload::scripts::RefusedGeneration;
use crate::reload::state::Reload;
use crate::report::{Looks, Report};
use crate::snapshot::Snapshot;
use crate::status::{NodeStatus, SharedStatus};
use crate::temporary_files;
use crate::writer::ReloadLock;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Mutex, broadcast, watch};
use tokio::time::Instant;
use valvehouse_core::trace::Traces;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, ScheduledCall, Script, SourceFile, Watch};
use valvehouse_store::{Kv, Store, StoreError, VectorIndex, now};

/// The interval at which the store is asked for its generation.
const STORE_POLL: Duration = Duration::from_millis(100);
/// The same where hosts share it: the exchange of what scripts keep brings the generation along, unless it takes longer.
const SHARED_STORE_POLL: Duration = Duration::from_millis(250);
/// The shortest time between two writes of what scripts store, so that a loop of `kv::set` makes few of them.
const KV_PAUSE: Duration = Duration::from_millis(5);
/// The maximum delay of a `kv` write with `durable: false`. A crash can lose the writes of this period.
const KV_DELAY: Duration = Duration::from_millis(100);
/// The interval at which a host looks whether it is time to write a snapshot of the store.
const SNAPSHOT_POLL: Duration = Duration::from_millis(200);
/// The interval at which entries that have ended are dropped from a store that hosts share.
const KV_CLEAR: Duration = Duration::from_secs(60);
/// The interval at which a host announces that it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The running set of plugins, swapped whole.
pub struct Host {
    id: String,
    current: ArcSwap<Snapshot>,
    writer: Mutex<Reload>,
    store: Arc<dyn Store>,
    kv: Arc<Kv>,
    vectors: VectorIndex,
    /// The store's generation as of the last exchange of what scripts keep.
    exchanged: watch::Sender<u64>,
    /// The store's generation that the current snapshot obeys.
    applied: AtomicU64,
    /// The start of that state, in milliseconds since 1970.
    applied_at: AtomicI64,
    /// The generation of the store that it does not take.
    refused: parking_lot::Mutex<Option<RefusedGeneration>>,
    reports: broadcast::Sender<Arc<Report>>,
    /// Notifies of every look at the store's generation.
    store_looks: watch::Sender<()>,
    /// The status of the plugins that was announced last.
    told: parking_lot::Mutex<Json>,
    looks: Looks,
    after: Arc<AfterAnswers>,
    /// The requests whose filters it reports.
    traces: OnceLock<Arc<Traces>>,
}

impl Host {
    /// Loads everything once.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn open(plan: Plan, store: Arc<dyn Store>) -> Result<Arc<Self>, StoreError> {
        let exchanged = watch::Sender::new(0);
        let kv = Arc::new(open_kv(&store, &exchanged).await?);
        let mut writer = Reload::new(Arc::new(plan), store.clone(), kv.clone()).await?;
        // The operators' settings have to be known from the first request on: guards may hang on them.
        writer.read_store().await?;
        let first = writer.look(None).await;
        let snapshot = first.snapshot.unwrap_or_else(|| writer.empty());
        writer.save(&snapshot, &first.report.changes).await;
        writer.record_lost(&snapshot).await;
        let id = format!("{}-{}", host_name(), uuid::Uuid::new_v4());
        let (reports, _) = broadcast::channel(64);
        let (asking, after, vectors) = (writer.asking(), writer.after(), writer.vectors());
        let refused = parking_lot::Mutex::new(writer.refused.clone());
        let host = Self {
            id,
            current: ArcSwap::from_pointee(snapshot),
            writer: Mutex::new(writer),
            store,
            kv,
            vectors,
            exchanged,
            applied: AtomicU64::new(first.stored_generation.unwrap_or(0)),
            applied_at: AtomicI64::new(now()),
            refused,
            reports,
            store_looks: watch::Sender::new(()),
            told: parking_lot::Mutex::default(),
            looks: Looks::default(),
            after,
            traces: OnceLock::new(),
        };
        host.looks.looked(Some(&first.report));
        let host = Arc::new(host);
        let weak = Arc::downgrade(&host);
        asking.at(move || Some(weak.upgrade()?.snapshot()));
        Ok(host)
    }

    /// Returns the plugins that a host would run now, without a change of the store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn peek(plan: Plan, store: Arc<dyn Store>) -> Result<Snapshot, StoreError> {
        let mut reader = Reload::new(Arc::new(plan), store, Arc::default()).await?;
        reader.only_looks = true;
        let first = reader.look(None).await;
        Ok(first.snapshot.unwrap_or_else(|| reader.empty()))
    }

    /// The snapshot of this moment; a turn keeps it to its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Its id among the hosts of its store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the vectors of scripts and the memories of users.
    pub fn vectors(&self) -> &VectorIndex {
        &self.vectors
    }

    /// Reports which filters ran in the requests that are recorded here.
    pub(crate) fn reports_coverage_of(&self, traces: Arc<Traces>) {
        // A host has one list of traces.
        let _ = self.traces.set(traces);
        self.count_coverage(&self.snapshot());
    }

    /// Counts requests where there is a guard.
    fn count_coverage(&self, snapshot: &Snapshot) {
        if let Some(traces) = self.traces.get() {
            traces.coverage().count(!snapshot.guards().is_empty());
        }
    }

    /// The work that scripts left for the time when clients have their answers.
    pub fn after_answers(&self) -> &AfterAnswers {
        &self.after
    }

    /// Returns the store generation that the running set is based on. A partly applied one does not count.
    pub fn applied_generation(&self) -> u64 {
        let applied = self.applied.load(Relaxed);
        match &*self.refused.lock() {
            Some(refused) if refused.generation <= applied => refused.generation.saturating_sub(1),
            _ => applied,
        }
    }

    /// Returns the latest generation of the store and the reason, where this host does not take it.
    pub fn refused(&self) -> Option<RefusedGeneration> {
        self.refused.lock().clone()
    }

    /// News as they come.
    pub fn reports(&self) -> broadcast::Receiver<Arc<Report>> {
        self.reports.subscribe()
    }

    /// Returns a receiver that is notified whenever this host looks at its store: when the store notifies it, and ten times a
    /// second. Whoever waits for something in the store looks then, too.
    pub fn store_looks(&self) -> watch::Receiver<()> {
        self.store_looks.subscribe()
    }

    /// Returns the counts and times of its looks at folders and store.
    pub fn looks(&self) -> &Looks {
        &self.looks
    }

    /// Returns the maps that scripts keep.
    pub fn kv(&self) -> &Kv {
        &self.kv
    }

    /// Returns the same, for who outlives this host.
    pub(crate) fn shared_kv(&self) -> Arc<Kv> {
        self.kv.clone()
    }

    /// Returns the store of valves and switches.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Holds the one writer, who knows what the store says now: nothing else changes the running set until
    /// it is dropped. What is changed meanwhile goes live by the [`reload`](Self::reload) that follows.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn writer(&self) -> Result<ReloadLock<'_>, StoreError> {
        ReloadLock::held(self.writer.lock().await).await
    }

    /// Goes on with another plan, of the same folders: what it says of models, providers and plugins goes live
    /// in one step.
    pub async fn replan(&self, plan: Plan) -> Arc<Snapshot> {
        {
            let mut writer = self.writer.lock().await;
            let mounted = writer.plan.mounted.clone();
            writer.plan = Arc::new(Plan { mounted, ..plan });
        }
        self.reload().await
    }

    /// Offers these tools of other servers from now on, in place of those that were mounted before.
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

    /// Takes the list that a function of a plugin returned, or the reason for which its call failed.
    pub(crate) async fn set_list(&self, id: &str, what: ScheduledCall, result: Result<Json, String>) {
        let is_news = self.writer.lock().await.set_list(id, what, result);
        if is_news {
            self.reload().await;
        }
    }

    /// A script as it would run here under its id, though it lies in no folder.
    ///
    /// # Errors
    /// Returns every problem of the script.
    pub async fn compile(&self, file: &SourceFile) -> Result<Script, Vec<Diagnostic>> {
        let writer = self.writer.lock().await;
        writer.compile(file, &writer.given(&file.id))
    }

    /// Waits until what went live last is written down as well: that comes a moment later.
    pub async fn written_down(&self) {
        drop(self.writer.lock().await);
    }

    /// Looks at folders and store now. Several at once wait for each other. A file that takes long to compile goes live
    /// by a later look.
    pub async fn reload(&self) -> Arc<Snapshot> {
        self.settle(None).await;
        self.snapshot()
    }

    /// The same; waits until the file of one plugin is compiled, however long that takes.
    pub async fn reload_with(&self, id: &str) -> Arc<Snapshot> {
        self.settle(Some(id)).await;
        self.snapshot()
    }

    /// Looks until nothing is about to come but files that take long to compile, and returns `true` if there are any.
    async fn settle(&self, id: Option<&str>) -> bool {
        loop {
            let (again, compiling) = self.look().await;
            let is_awaited = id.is_some_and(|id| compiling.iter().any(|compiling| **compiling == *id));
            match again.or(is_awaited.then_some(WHILE_COMPILING)) {
                Some(again) => tokio::time::sleep(again).await,
                None => return !compiling.is_empty(),
            }
        }
    }

    /// One look; when another one should follow soon, after which time; and the plugins whose files are still being
    /// compiled.
    // Boxed, so that it is compiled here once, and not in each package that waits for a look.
    fn look(&self) -> BoxFuture<'_, (Option<Duration>, Vec<Arc<str>>)> {
        Box::pin(self.look_once())
    }

    async fn look_once(&self) -> (Option<Duration>, Vec<Arc<str>>) {
        let mut writer = self.writer.lock().await;
        let current = self.snapshot();
        let was_away = writer.is_away;
        let outcome = writer.look(Some(&current)).await;
        let is_back = was_away && !writer.is_away;
        if let Some(snapshot) = outcome.snapshot {
            let snapshot = Arc::new(snapshot);
            self.current.store(snapshot.clone());
            let report = Arc::new(outcome.report);
            self.looks.looked(Some(&report));
            // Nobody listening is fine.
            let _ = self.reports.send(report.clone());
            // Live first, remembered after: the disk takes its time.
            match is_back {
                true => writer.save_all(&snapshot, &report.changes).await,
                false => writer.save(&snapshot, &report.changes).await,
            }
        } else {
            self.looks.looked(None);
            // This saves the state that the look before could not.
            match is_back {
                true => writer.save_all(&current, &[]).await,
                false => writer.save(&current, &[]).await,
            }
        }
        self.refused.lock().clone_from(&writer.refused);
        if let Some(applied) = outcome.stored_generation {
            if self.applied.swap(applied, Relaxed) != applied {
                self.applied_at.store(now(), Relaxed);
            }
            self.announce().await;
        }
        (outcome.again.or(writer.is_behind().then_some(NEXT_LOOK)), outcome.compiling)
    }

    /// Follows folders and store until it is dropped.
    pub async fn follow(self: Arc<Self>) {
        tokio::join!(
            self.follow_folders(),
            self.follow_store(),
            self.keep_kv(),
            self.keep_snapshot(),
            self.clear_temporary_files()
        );
    }

    /// Removes what killed writers left in the folders.
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
            while self.settle(None).await {
                tokio::time::sleep(WHILE_COMPILING).await;
            }
        }
    }

    /// Also sends a periodic heartbeat of this host, with the generation that it serves.
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
                // One that is less was read before the last one.
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

    async fn announce(&self) {
        let applied = self.applied_generation();
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
        let news = (tells != *self.told.lock()).then_some(&tells);
        match self.store.announce(&self.id, std::process::id(), applied, news).await {
            Ok(()) => *self.told.lock() = tells,
            Err(error) => tracing::debug!("cannot announce this host in the store: {error}"),
        }
    }

    /// Writes what scripts store: soon where a turn will wait for it, else a moment later. A turn that ends earlier writes
    /// it itself.
    async fn keep_kv(&self) {
        let (mut exchanged, mut cleared) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = self.kv.wanted() => {}
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

    /// Writes what this host starts from while the store is away: each generation that it has taken whole.
    async fn keep_snapshot(&self) {
        let mut has_failed = false;
        loop {
            tokio::time::sleep(SNAPSHOT_POLL).await;
            if self.refused().is_some() {
                continue;
            }
            match self.store.save_snapshot(self.applied.load(Relaxed)).await {
                Ok(is_written) => has_failed &= !is_written,
                Err(error) if !has_failed && self.store.outage().is_none() => {
                    tracing::warn!(
                        "cannot write the snapshot, without which this host cannot start while its database is unavailable: {error}"
                    );
                    has_failed = true;
                }
                Err(_) => {}
            }
        }
    }

    /// Returns `true` if nothing is left to write.
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

    /// Writes pending changes and signs off from the store.
    pub async fn close(&self) {
        self.write_kv().await;
        if let Err(error) = self.store.leave(&self.id).await {
            tracing::debug!("cannot deregister from the store: {error}");
        }
    }
}

/// Loads the maps of all scripts. Each exchange returns the store's generation.
async fn open_kv(store: &Arc<dyn Store>, exchanged: &watch::Sender<u64>) -> Result<Kv, StoreError> {
    // Before the entries: what is written in between is among the first news.
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

/// The name of this machine, for people who read which hosts live on a store.
fn host_name() -> String {
    let name = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    let name = name.unwrap_or_default();
    let name: String = name.trim().chars().filter(|letter| !letter.is_control()).take(64).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}
