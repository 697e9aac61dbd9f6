//! The versions that are not run because they ended the process: a list in the project's state folder.

use super::slot::{BEAT, FAULT, HEADER, ID, LOADING, MAGIC, SLOT, SLOTS, VERSION, WORDS, place_of};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder of a project in which a host stores its state.
pub(super) const FOLDER: &str = ".valvehouse";
const FILE: &str = "quarantine.json";
/// The name of the file that is locked while the list is changed.
const LOCK: &str = "quarantine.lock";
/// The maximum number of listed versions; the oldest are dropped.
const MAX_ENTRIES: usize = 200;

/// A version that is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineEntry {
    /// The plugin's id.
    pub id: String,
    /// The hash of its text and of everything it imports.
    pub hash: String,
    /// The reason for the quarantine.
    pub why: String,
}

/// The versions of a project that are not run, as of the last reading of the list.
#[derive(Debug, Default)]
pub struct Quarantine {
    file: PathBuf,
    /// The modification time and size of the file at that time.
    stamp: Option<(SystemTime, u64)>,
    list: List,
    /// Additional versions that are not in the file.
    more: Vec<QuarantineEntry>,
}

impl Quarantine {
    /// Reads the list of a project; a missing one is empty.
    pub fn of(project: &Path) -> Self {
        let mut quarantine = Self { file: project.join(FOLDER).join(FILE), ..Self::default() };
        quarantine.refresh();
        quarantine
    }

    /// Adds versions without writing them to the list.
    #[must_use]
    pub fn and(mut self, more: &[QuarantineEntry]) -> Self {
        self.more.extend_from_slice(more);
        self
    }

    /// Reads the list again if it has changed. Returns the ids of plugins whose entries are different.
    pub fn refresh(&mut self) -> Vec<String> {
        let stamp = std::fs::metadata(&self.file).ok();
        let stamp = stamp.and_then(|metadata| Some((metadata.modified().ok()?, metadata.len())));
        if stamp == self.stamp {
            return Vec::new();
        }
        let list = List::read(&self.file);
        let before = std::mem::replace(&mut self.list, list);
        self.stamp = stamp;
        let is_in = |list: &List, entry: &Entry| list.quarantined.contains(entry);
        let new = self.list.quarantined.iter().filter(|entry| !is_in(&before, entry));
        let gone = before.quarantined.iter().filter(|entry| !is_in(&self.list, entry));
        new.chain(gone).map(|entry| entry.id.clone()).collect()
    }

    /// Returns the versions of a plugin that are not run.
    pub fn of_plugin(&self, id: &str) -> Vec<QuarantineEntry> {
        let own = self.list.quarantined.iter().filter(|entry| entry.id == id);
        let listed = own.map(|entry| QuarantineEntry {
            id: entry.id.clone(),
            hash: entry.hash.clone(),
            why: entry.why.clone(),
        });
        listed.chain(self.more.iter().filter(|version| version.id == id).cloned()).collect()
    }

    /// Releases all versions of a plugin, and returns their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the list cannot be written.
    pub fn release(project: &Path, id: &str) -> io::Result<usize> {
        change(project, |list| {
            let before = list.quarantined.len();
            list.quarantined.retain(|entry| entry.id != id);
            list.suspects.retain(|entry| entry.id != id);
            before - list.quarantined.len()
        })
    }
}

/// Changes the list of a project under a lock between processes.
pub(super) fn change<T>(project: &Path, how: impl FnOnce(&mut List) -> T) -> io::Result<T> {
    let folder = project.join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join(LOCK))?;
    lock.lock()?;
    let file = folder.join(FILE);
    let before = List::read(&file);
    let mut list = before.clone();
    let result = how(&mut list);
    if list != before {
        list.write(&file)?;
    }
    Ok(result)
}

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct List {
    #[serde(default)]
    pub(super) quarantined: Vec<Entry>,
    /// Versions that may have ended the process once.
    #[serde(default)]
    pub(super) suspects: Vec<Entry>,
}

/// A version, with the time and the reason of its entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) hash: String,
    /// The time in milliseconds since 1970.
    pub(super) at: i64,
    pub(super) why: String,
}

impl Entry {
    pub(super) fn new(ran: &LastRun, at: i64, why: String) -> Self {
        Self { id: ran.id.clone(), hash: ran.hash.clone(), at, why }
    }

    fn is_of(&self, id: &str, hash: &str) -> bool {
        self.id == id && self.hash == hash
    }
}

impl List {
    /// Reads a list. An unreadable list counts as empty, so that no file prevents a host from starting.
    fn read(file: &Path) -> Self {
        match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!("cannot read {}: {error}; its entries are not quarantined", file.display());
                Self::default()
            }),
            Err(_) => Self::default(),
        }
    }

    fn write(&self, file: &Path) -> io::Result<()> {
        let beside = file.with_extension("tmp");
        let mut written = File::create(&beside)?;
        written.write_all(&serde_json::to_vec_pretty(self)?)?;
        written.sync_all()?;
        std::fs::rename(beside, file)
    }

    /// Adds a version; returns `false` if it is listed already.
    pub(super) fn add(&mut self, entry: &Entry) -> bool {
        if self.quarantined.iter().any(|known| known.is_of(&entry.id, &entry.hash)) {
            return false;
        }
        self.suspects.retain(|suspect| !suspect.is_of(&entry.id, &entry.hash));
        self.quarantined.push(entry.clone());
        let surplus = self.quarantined.len().saturating_sub(MAX_ENTRIES);
        self.quarantined.drain(..surplus);
        true
    }

    /// Adds a suspect; returns `false` if it is one already.
    pub(super) fn suspect(&mut self, ran: &LastRun, now: i64) -> bool {
        if self.suspects.iter().any(|suspect| suspect.is_of(&ran.id, &ran.hash)) {
            return false;
        }
        self.suspects.push(Entry::new(ran, now, String::new()));
        let surplus = self.suspects.len().saturating_sub(MAX_ENTRIES);
        self.suspects.drain(..surplus);
        true
    }
}

/// The work of a thread when its process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRun {
    pub(super) id: String,
    pub(super) hash: String,
    /// `true` if its file was being loaded; otherwise it was called.
    pub(super) is_loading: bool,
    /// The time for which it had run at the last recorded tick.
    pub(super) age: Duration,
}

/// The content of the record of an ended process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeftOver {
    /// The signal of its own fault, and the version that ran on that thread.
    pub(super) fault: Option<(i32, Option<LastRun>)>,
    /// The versions that ran on its threads.
    pub(super) running: Vec<LastRun>,
}

/// Parses the bytes of a record; returns `None` if they are not a complete record.
pub(super) fn left_over(bytes: &[u8]) -> Option<LeftOver> {
    let (words, _) = bytes.as_chunks();
    let words: Vec<u64> = words.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    if words.len() != WORDS || words[0] != MAGIC {
        return None;
    }
    let ran = |slot: usize| {
        let slot = words.get(HEADER + slot * SLOT..)?;
        let number = u32::try_from(slot[0] & (LOADING - 1)).ok().filter(|number| *number > 0)?;
        let version = words.get(place_of(number)..)?.get(..VERSION)?;
        let bytes: Vec<u8> = version.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (id, hash) = bytes.split_at(ID * 8);
        let id = String::from_utf8_lossy(id).trim_end_matches('\0').to_owned();
        let age = Duration::from_millis(words[BEAT].saturating_sub(slot[1]));
        Some(LastRun { id, hash: valvehouse_core::text::hex(hash), is_loading: slot[0] & LOADING != 0, age })
    };
    let (signal, thread) = ((words[FAULT] & 0xff) as i32, (words[FAULT] >> 8) as usize);
    let fault = (signal != 0).then(|| (signal, thread.checked_sub(1).and_then(ran)));
    Some(LeftOver { fault, running: (0..SLOTS).filter_map(ran).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str) -> Entry {
        Entry { id: id.into(), hash: "1".into(), at: 0, why: "it crashed".into() }
    }

    #[test]
    fn the_quarantine_is_shared_by_processes_and_released_by_id() {
        let project = tempfile::tempdir().unwrap();
        let mut seen = Quarantine::of(project.path());
        assert!(seen.of_plugin("a").is_empty());
        change(project.path(), |list| (list.add(&entry("a")), list.add(&entry("b")))).unwrap();
        let mut changed = seen.refresh();
        changed.sort();
        assert_eq!(changed, ["a", "b"]);
        assert_eq!(seen.of_plugin("a")[0].why, "it crashed");
        assert!(seen.refresh().is_empty());
        assert_eq!(Quarantine::release(project.path(), "a").unwrap(), 1);
        assert_eq!(seen.refresh(), ["a"]);
        assert!(seen.of_plugin("a").is_empty() && !seen.of_plugin("b").is_empty());
        assert_eq!(Quarantine::release(project.path(), "a").unwrap(), 0);
    }

    #[test]
    fn an_unreadable_quarantine_list_quarantines_nothing() {
        let project = tempfile::tempdir().unwrap();
        change(project.path(), |list| list.add(&entry("a"))).unwrap();
        std::fs::write(project.path().join(FOLDER).join(FILE), "{").unwrap();
        assert!(Quarantine::of(project.path()).of_plugin("a").is_empty());
        change(project.path(), |list| list.add(&entry("b"))).unwrap();
        assert_eq!(Quarantine::of(project.path()).of_plugin("b").len(), 1);
    }
}
