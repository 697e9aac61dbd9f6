//! The mapped file that records the current work of each thread.

// Mapping a file requires unsafe code.
#![allow(unsafe_code)]

use super::fault::watch_faults;
use super::quarantine::{self, FOLDER, QuarantineEntry, left_over};
use super::slot::{FREE, MAGIC, SLOTS, WORDS, WORDS_OF_PROCESS, Words};
use super::verdict;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

/// The prefix of the file names. The process id and a UUID follow. The UUID makes each name unique: hosts in
/// containers may share folders and process ids, and a mapped file must never be truncated.
const PREFIX: &str = "running-";
/// The record of this process. Dropping it deletes the file, because the process ends normally.
#[derive(Debug)]
pub struct CrashRecord {
    file: PathBuf,
    /// The lock, held as long as the process lives.
    _lock: File,
}

impl CrashRecord {
    /// Reads the records of earlier processes in the state folder of a project, quarantines the versions that ended
    /// them, and creates the record of this process. Returns the versions that are newly quarantined.
    ///
    /// A process has at most one record. If none can be created, the host runs without one and a warning is logged.
    pub fn open(project: &Path) -> (Option<Self>, Vec<QuarantineEntry>) {
        let folder = project.join(FOLDER);
        let caught = judge_left_over(project, &folder);
        let record = Self::begin(&folder);
        if let Err(error) = &record {
            let folder = folder.display();
            tracing::warn!(
                "cannot record the running plugins in {folder}: {error}; a crash will not name its plugin"
            );
        }
        (record.ok(), caught)
    }

    fn begin(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        if WORDS_OF_PROCESS.get().is_some() {
            return Err(io::Error::other("this process already has a crash record"));
        }
        let unique = uuid::Uuid::new_v4().simple();
        let path = folder.join(format!("{PREFIX}{}-{unique}", std::process::id()));
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        let begun = file.try_lock().map_err(io::Error::from).and_then(|()| {
            // The whole file is written in advance, so that later stores need no disk space.
            let mut bytes = MAGIC.to_le_bytes().to_vec();
            bytes.resize(WORDS * 8, 0);
            file.write_all(&bytes)?;
            let words = map(&file)?;
            let is_first = WORDS_OF_PROCESS.set(words).is_ok();
            is_first.then_some(()).ok_or_else(|| io::Error::other("this process already has a crash record"))
        });
        if let Err(error) = begun {
            // An unusable file is of no use to the next start either.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        FREE.lock().extend((0..SLOTS as u16).rev());
        watch_faults();
        Ok(Self { file: path, _lock: file })
    }
}

impl Drop for CrashRecord {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.file) {
            tracing::debug!("cannot delete {}: {error}", self.file.display());
        }
    }
}

/// Evaluates the records of ended processes, and deletes them.
fn judge_left_over(project: &Path, folder: &Path) -> Vec<QuarantineEntry> {
    let mut caught = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        match judge_file(project, &path) {
            Ok(more) => caught.extend(more),
            Err(error) => tracing::warn!("cannot read the crash record {}: {error}", path.display()),
        }
    }
    caught
}

fn judge_file(project: &Path, path: &Path) -> io::Result<Vec<QuarantineEntry>> {
    let mut file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        // Its process is alive, or another start reads it.
        Err(TryLockError::WouldBlock) => return Ok(Vec::new()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut bytes = Vec::new();
    (&mut file).take(WORDS as u64 * 8).read_to_end(&mut bytes)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let caught = match left_over(&bytes) {
        Some(left) => quarantine::change(project, |list| verdict::judge(&left, list, now))?,
        None => Vec::new(),
    };
    std::fs::remove_file(path)?;
    Ok(caught
        .into_iter()
        .map(|entry| QuarantineEntry { id: entry.id, hash: entry.hash, why: entry.why })
        .collect())
}

#[cfg(unix)]
fn map(file: &File) -> io::Result<Words> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: creates a new mapping of a file that nobody truncates, because it is locked.
    let place = unsafe { mmap(std::ptr::null_mut(), WORDS * 8, read_write, shared, file, 0)? };
    // SAFETY: the mapping is page-aligned, has this number of words, and is never unmapped. Every bit pattern is a
    // valid word, and all accesses are atomic.
    Ok(unsafe { std::slice::from_raw_parts(place.cast::<AtomicU64>(), WORDS) })
}

#[cfg(not(unix))]
fn map(_: &File) -> io::Result<Words> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::crash::{Quarantine, RunVersion, loading, quarantine::LastRun, running, slot::BEAT, stopped};

    const HASH_OF_A: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// Returns the record of a process that ended two seconds after its clock began; the clock of this process
    /// continues.
    fn at_two_seconds(bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[BEAT * 8..][..8].copy_from_slice(&2_000_u64.to_le_bytes());
        bytes
    }

    fn ran(bytes: &[u8], id: &str) -> Option<LastRun> {
        left_over(&at_two_seconds(bytes))?.running.into_iter().find(|ran| ran.id == id)
    }

    /// A single test, because a process has one record.
    #[test]
    fn the_next_start_quarantines_a_file_that_hung_while_loading() {
        let project = tempfile::tempdir().unwrap();
        let (record, caught) = CrashRecord::open(project.path());
        let record = record.unwrap();
        assert!(caught.is_empty());
        assert!(CrashRecord::open(project.path()).0.is_none(), "a process has one record");

        let version = RunVersion::of("calls", HASH_OF_A);
        let again = RunVersion::of("calls", HASH_OF_A);
        assert_eq!(version.0, again.0);
        drop(again);
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&record.file).unwrap());
            assert_eq!(mode & 0o777, 0o600, "only its owner reads the record");
        }
        let before = running(&version, 1_000);
        let loads = loading("loads", HASH_OF_A, 1_500);
        let path = record.file.clone();
        let other = std::thread::spawn(move || {
            let version = RunVersion::of("other", HASH_OF_A);
            running(&version, 1_900);
            let bytes = std::fs::read(path).unwrap();
            assert_eq!(ran(&bytes, "other").map(|ran| ran.age.as_millis()), Some(100));
        });
        other.join().unwrap();

        let bytes = std::fs::read(&record.file).unwrap();
        assert!(ran(&bytes, "other").is_none(), "a thread that ended runs nothing");
        let loading = ran(&bytes, "loads").unwrap();
        let of_loading = (loading.is_loading, loading.age.as_millis(), loading.hash.as_str());
        assert_eq!(of_loading, (true, 500, HASH_OF_A));
        drop(loads);
        let call = ran(&std::fs::read(&record.file).unwrap(), "calls").unwrap();
        assert_eq!((call.is_loading, call.age.as_millis()), (false, 1_000));
        stopped(before);
        assert!(ran(&std::fs::read(&record.file).unwrap(), "calls").is_none());

        // The file of another process that was killed while it loaded a plugin.
        let left = project.path().join(FOLDER).join("running-1");
        std::fs::write(&left, at_two_seconds(&bytes)).unwrap();
        let caught = judge_left_over(project.path(), &project.path().join(FOLDER));
        // Other tests of this process may load scripts at the same time.
        let ids = caught.iter().map(|caught| caught.id.as_str());
        let own: Vec<_> = ids.filter(|id| ["calls", "loads", "other"].contains(id)).collect();
        assert_eq!(own, ["loads"]);
        assert!(!left.exists() && record.file.exists(), "the one of a process that lives stays");
        assert_eq!(Quarantine::of(project.path()).of_plugin("loads").len(), 1);

        // A file that is not a record is deleted, and the list is unchanged.
        std::fs::write(&left, b"VHRUN001").unwrap();
        assert!(judge_left_over(project.path(), &project.path().join(FOLDER)).is_empty());
        assert!(!left.exists());

        let path = record.file.clone();
        drop(record);
        assert!(!path.exists(), "who ends in order leaves nothing");
    }
}
