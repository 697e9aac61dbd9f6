//! The files of a shared store on its host's disk.

use super::content::Content;
use super::file::{self, Origin};
use super::journal::Journal;
use crate::clock::now;
use crate::error::SnapshotInfo;
use crate::error::StoreError;
use crate::kv::joined;
use crate::record::{KvChange, KvRow};
use crate::seal::SealKey;
use crate::sealing::KeyText;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The minimum time between two snapshots with different settings.
const SETTINGS_PAUSE: Duration = Duration::from_secs(1);
/// The minimum time between two snapshots that differ only in kv entries.
const KV_PAUSE: Duration = Duration::from_secs(5);
/// The minimum pause after a snapshot, as a multiple of the time that writing it took: other hosts and operators wait
/// for one of a new generation.
const SHARE: u32 = 20;
const SHARE_OF_GENERATION: u32 = 2;

/// The files of a shared store on its host's disk.
pub(crate) struct Local {
    file: PathBuf,
    origin: Origin,
    key: SealKey,
    /// The snapshot that the store uses until it reaches its database for the first time.
    cold: RwLock<Option<Arc<Content>>>,
    journal: tokio::sync::Mutex<Journal>,
    written: Mutex<LastWrite>,
    /// The numbers of changes that do not raise the generation: of settings, and of kv entries.
    settings_changes: AtomicU64,
    kv_changes: AtomicU64,
}

/// The last written snapshot.
#[derive(Default)]
struct LastWrite {
    seen: Option<SnapshotInfo>,
    changes: (u64, u64),
    /// The time at which this process wrote it, and the time that writing took.
    at: Option<(Instant, Duration)>,
}

impl Local {
    /// Opens the files for a database that was reached.
    ///
    /// # Errors
    /// Returns an error if the journal of kv changes cannot be read.
    pub(crate) fn of_database(
        file: &Path,
        database: &str,
        proof: String,
        key: &SealKey,
    ) -> Result<Self, StoreError> {
        Self::new(file, Origin { database: database.to_owned(), proof }, key, None)
    }

    /// Opens the files to start without the database, and returns the key that opens them; `None` if there is
    /// no snapshot.
    ///
    /// # Errors
    /// Returns an error if the snapshot is damaged, belongs to another database, has a newer format, or is
    /// sealed with another key.
    pub(crate) fn of_snapshot(
        file: &Path,
        database: &str,
        key: &KeyText,
    ) -> Result<Option<(Self, SealKey)>, StoreError> {
        let Some((snapshot, key)) = file::read(file, database, key)? else { return Ok(None) };
        let seen = SnapshotInfo { generation: snapshot.content.settings.generation, at: snapshot.at };
        let local = Self::new(file, snapshot.origin, &key, Some(Arc::new(snapshot.content)))?;
        local.written.lock().seen = Some(seen);
        Ok(Some((local, key)))
    }

    fn new(
        file: &Path,
        origin: Origin,
        key: &SealKey,
        cold: Option<Arc<Content>>,
    ) -> Result<Self, StoreError> {
        let journal = tokio::sync::Mutex::new(Journal::adopt(file, &origin, key)?);
        Ok(Self {
            file: file.to_owned(),
            origin,
            key: key.clone(),
            cold: RwLock::new(cold),
            journal,
            written: Mutex::default(),
            settings_changes: AtomicU64::new(0),
            kv_changes: AtomicU64::new(0),
        })
    }

    /// Returns the snapshot that the store uses if it has never reached its database.
    pub(crate) fn cold(&self) -> Option<Arc<Content>> {
        self.cold.read().clone()
    }

    /// Returns the kv entries of the snapshot with the changes of the journal.
    pub(crate) async fn kv(&self, content: &Content) -> Vec<KvRow> {
        let changes = content.kv.iter().map(|row| KvChange::Set(row.clone()));
        let mut rows: HashMap<[String; 3], KvChange> =
            changes.map(|change| (change.place().map(str::to_owned), change)).collect();
        for change in self.journal.lock().await.pending() {
            let place = change.place().map(str::to_owned);
            let change = joined(rows.get(&place), change, now());
            rows.insert(place, change);
        }
        let row = |change| match change {
            KvChange::Set(row) | KvChange::Add(row) | KvChange::Hits(row, _) => Some(row),
            KvChange::Delete { .. } => None,
        };
        rows.into_values().filter_map(row).collect()
    }

    /// Records a change of settings that does not raise the generation.
    pub(crate) fn settings_changed(&self) {
        self.settings_changes.fetch_add(1, SeqCst);
    }

    /// Records a change of kv entries.
    pub(crate) fn kv_changed(&self) {
        self.kv_changes.fetch_add(1, SeqCst);
    }

    pub(super) fn seen(&self) -> Option<SnapshotInfo> {
        self.written.lock().seen
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn journal(&self) -> &tokio::sync::Mutex<Journal> {
        &self.journal
    }

    /// Returns `true` if the files belong to the database with this proof.
    pub(super) fn is_of(&self, proof: &str) -> bool {
        self.origin.proof == proof
    }

    /// Switches from the snapshot to the database.
    pub(super) fn thaw(&self) {
        *self.cold.write() = None;
    }

    fn changes(&self) -> (u64, u64) {
        (self.settings_changes.load(SeqCst), self.kv_changes.load(SeqCst))
    }

    /// Returns the numbers of changes for a snapshot of this generation if one is due.
    pub(crate) fn due(&self, generation: u64) -> Option<(u64, u64)> {
        let (written, changes) = (self.written.lock(), self.changes());
        let is_other = written.seen.is_none_or(|seen| seen.generation != generation);
        let (least, share) = match () {
            () if is_other => (SETTINGS_PAUSE, SHARE_OF_GENERATION),
            () if written.changes.0 != changes.0 => (SETTINGS_PAUSE, SHARE),
            () if written.changes.1 != changes.1 || written.at.is_none() => (KV_PAUSE, SHARE),
            () => return None,
        };
        let is_time = written.at.is_none_or(|(at, took)| at.elapsed() >= least.max(took * share));
        is_time.then_some(changes)
    }

    /// Writes a snapshot. `since` is the start of the work on it.
    pub(crate) async fn save(
        &self,
        content: Content,
        changes: (u64, u64),
        since: Instant,
    ) -> Result<(), StoreError> {
        let (file, origin, key) = (self.file.clone(), self.origin.clone(), self.key.clone());
        let generation = content.settings.generation;
        let written = tokio::task::spawn_blocking(move || file::write(&file, &origin, &key, &content)).await;
        // Writing does not panic.
        let Ok(written) = written else { return Ok(()) };
        let mut last = self.written.lock();
        last.at = Some((Instant::now(), since.elapsed()));
        let at = written?;
        (last.seen, last.changes) = (Some(SnapshotInfo { generation, at }), changes);
        Ok(())
    }
}
