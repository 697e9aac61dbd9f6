//! The mapped file: what each thread runs at this moment.

// The mapping itself, and the handler of signals that a process does not survive: neither can be had otherwise.
#![allow(unsafe_code)]

use super::left_over::{LastRun, LeftOver};
use super::quarantine::{self, FOLDER, Quarantined};
use super::verdict;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// The prefix of the names of these files. The process id and a UUID follow. The UUID makes each name unique: hosts
/// in containers share folders and process ids, and a mapped file must never be shortened.
const PREFIX: &str = "running-";
const MAGIC: u64 = u64::from_le_bytes(*b"VHRUN001");

// In words of eight bytes: the header, the slots, the versions.
const HEADER: usize = 8;
const SLOTS: usize = 512;
const SLOT: usize = 8;
const VERSIONS: usize = 8_192;
const VERSION: usize = 12;
const WORDS: usize = HEADER + SLOTS * SLOT + VERSIONS * VERSION;

/// In the header.
const BEAT: usize = 1;
const FAULT: usize = 2;

/// Words of an id, and of a hash, in a version.
const ID: usize = 8;
const HASH: usize = 4;

/// In the first word of a slot, beside the version's number.
const LOADING: u64 = 1 << 32;

type Words = &'static [AtomicU64];

static WORDS_OF_PROCESS: OnceLock<Words> = OnceLock::new();
static FREE: Mutex<Vec<u16>> = Mutex::new(Vec::new());
static NUMBERS: Mutex<Option<Numbers>> = Mutex::new(None);

/// The record of this process, which is deleted when this is dropped: it ended in order.
#[derive(Debug)]
pub struct Record {
    file: PathBuf,
    /// Held as long as the process lives.
    _lock: File,
}

impl Record {
    /// Reads what earlier processes left in the state folder of a project, quarantines the versions that ended
    /// them, and begins the record of this one. Returns the versions that are new in quarantine.
    ///
    /// A process has one record. Where none can be kept the host runs without, and a warning is logged.
    pub fn open(project: &Path) -> (Option<Self>, Vec<Quarantined>) {
        let folder = project.join(FOLDER);
        let caught = judge_left_over(project, &folder);
        let record = Self::begin(&folder);
        if let Err(error) = &record {
            let folder = folder.display();
            tracing::warn!("cannot record in {folder} which plugins run: {error}; a crash names none");
        }
        (record.ok(), caught)
    }

    fn begin(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        if WORDS_OF_PROCESS.get().is_some() {
            return Err(io::Error::other("this process has a record already"));
        }
        let unique = uuid::Uuid::new_v4().simple();
        let path = folder.join(format!("{PREFIX}{}-{unique}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
        let begun = file.try_lock().map_err(io::Error::from).and_then(|()| {
            // Written whole, so that no store needs room on the disk that is not there.
            let mut bytes = MAGIC.to_le_bytes().to_vec();
            bytes.resize(WORDS * 8, 0);
            file.write_all(&bytes)?;
            let words = map(&file)?;
            let is_first = WORDS_OF_PROCESS.set(words).is_ok();
            is_first.then_some(()).ok_or_else(|| io::Error::other("this process has a record already"))
        });
        if let Err(error) = begun {
            // What cannot be used is of no use to the next start either.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        FREE.lock().extend((0..SLOTS as u16).rev());
        watch_faults();
        Ok(Self { file: path, _lock: file })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.file) {
            tracing::debug!("cannot delete {}: {error}", self.file.display());
        }
    }
}

/// A version of a plugin that may run, known to the record as long as this lives.
#[derive(Debug, Default)]
pub struct Version(u32);

#[derive(Default)]
struct Numbers {
    known: HashMap<(String, String), u32>,
    /// For each number its version, and how many hold it.
    held: Vec<Option<((String, String), u32)>>,
    free: Vec<u32>,
}

impl Version {
    /// The version of a plugin with this hash, which is SHA-256 in hexadecimal digits.
    pub fn of(id: &str, hash: &str) -> Self {
        let Some(words) = WORDS_OF_PROCESS.get() else { return Self(0) };
        let mut numbers = NUMBERS.lock();
        let numbers = numbers.get_or_insert_default();
        let key = (id.to_owned(), hash.to_owned());
        if let Some(number) = numbers.known.get(&key).copied() {
            if let Some((_, holders)) = &mut numbers.held[number as usize - 1] {
                *holders += 1;
            }
            return Self(number);
        }
        let number = match numbers.free.pop() {
            Some(number) => number,
            None if numbers.held.len() < VERSIONS => {
                numbers.held.push(None);
                numbers.held.len() as u32
            }
            None => return Self(0),
        };
        write_version(&words[place_of(number)..][..VERSION], id, hash);
        numbers.known.insert(key.clone(), number);
        numbers.held[number as usize - 1] = Some((key, 1));
        Self(number)
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        if self.0 == 0 {
            return;
        }
        let mut numbers = NUMBERS.lock();
        let Some(numbers) = numbers.as_mut() else { return };
        let place = &mut numbers.held[self.0 as usize - 1];
        if let Some((_, holders)) = place {
            *holders -= 1;
            if *holders == 0 {
                let key = place.take().map(|(key, _)| key);
                key.and_then(|key| numbers.known.remove(&key));
                numbers.free.push(self.0);
            }
        }
    }
}

fn place_of(number: u32) -> usize {
    HEADER + SLOTS * SLOT + (number as usize - 1) * VERSION
}

fn write_version(words: &[AtomicU64], id: &str, hash: &str) {
    let mut bytes = [0; VERSION * 8];
    let length = id.len().min(ID * 8);
    bytes[..length].copy_from_slice(&id.as_bytes()[..length]);
    let digits = hash.as_bytes().chunks_exact(2).take(HASH * 8);
    for (byte, digits) in bytes[ID * 8..].iter_mut().zip(digits) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or(0);
    }
    for (word, bytes) in words.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
    }
}

thread_local! {
    /// The words of this thread's slot: none where it has not asked yet, or where there is none for it.
    static OWN: Cell<Own> = const { Cell::new(Own::NotAsked) };
    /// Gives the slot back when the thread ends.
    static RETURN: Cell<Option<Returned>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
enum Own {
    NotAsked,
    None,
    Slot(u16, &'static [AtomicU64; 2]),
}

struct Returned(u16);

impl Drop for Returned {
    fn drop(&mut self) {
        if let Own::Slot(_, words) = OWN.replace(Own::None) {
            words[0].store(0, Relaxed);
        }
        FREE.lock().push(self.0);
    }
}

#[inline]
fn slot() -> Option<&'static [AtomicU64; 2]> {
    match OWN.get() {
        Own::Slot(_, words) => Some(words),
        Own::None => None,
        Own::NotAsked => taken(),
    }
}

#[cold]
fn taken() -> Option<&'static [AtomicU64; 2]> {
    let words = WORDS_OF_PROCESS.get().and_then(|words| {
        let number = FREE.lock().pop()?;
        let own = words[HEADER + usize::from(number) * SLOT..].first_chunk::<2>()?;
        own[0].store(0, Relaxed);
        RETURN.set(Some(Returned(number)));
        OWN.set(Own::Slot(number, own));
        Some(own)
    });
    if words.is_none() {
        OWN.set(Own::None);
    }
    words
}

/// The version that a thread ran before, and the millisecond since when; it is stored again later.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    what: u64,
    since: u64,
}

/// Stores that this thread runs a version from this millisecond on; returns what it ran before.
#[inline]
pub fn running(version: &Version, tick: u64) -> Mark {
    store(u64::from(version.0), tick)
}

/// Stores that this thread runs again what it ran before; nothing for the default.
#[inline]
pub fn stopped(before: Mark) {
    store(before.what, before.since);
}

#[inline]
fn store(what: u64, since: u64) -> Mark {
    let Some(slot) = slot() else { return Mark::default() };
    let before = Mark { what: slot[0].load(Relaxed), since: slot[1].load(Relaxed) };
    slot[1].store(since, Relaxed);
    slot[0].store(what, Relaxed);
    before
}

/// Stores that this thread loads a version, until what it returns is dropped.
#[must_use]
pub fn loading(id: &str, hash: &str, tick: u64) -> Loading {
    let version = Version::of(id, hash);
    let what = if version.0 == 0 { 0 } else { u64::from(version.0) | LOADING };
    Loading { before: store(what, tick), _version: version }
}

/// A version that is loaded.
#[derive(Debug)]
pub struct Loading {
    before: Mark,
    _version: Version,
}

impl Drop for Loading {
    fn drop(&mut self) {
        stopped(self.before);
    }
}

/// Stores that the process lives at this millisecond.
#[inline]
pub(crate) fn beat(tick: u64) {
    if let Some(words) = WORDS_OF_PROCESS.get() {
        words[BEAT].store(tick, Relaxed);
    }
}

/// Judges the files of processes that are gone, and deletes them.
fn judge_left_over(project: &Path, folder: &Path) -> Vec<Quarantined> {
    let mut caught = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        match judge_file(project, &path) {
            Ok(more) => caught.extend(more),
            Err(error) => tracing::warn!("cannot tell from {} what crashed: {error}", path.display()),
        }
    }
    caught
}

fn judge_file(project: &Path, path: &Path) -> io::Result<Vec<Quarantined>> {
    let mut file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        // Its process lives, or another start reads it.
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
        .map(|entry| Quarantined { id: entry.id, hash: entry.hash, why: entry.why })
        .collect())
}

/// Parses the bytes of a record; returns `None` if they are not a whole record.
fn left_over(bytes: &[u8]) -> Option<LeftOver> {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default())).collect();
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
        Some(LastRun { id, hash: valvehouse_core::words::hex(hash), is_loading: slot[0] & LOADING != 0, age })
    };
    let (signal, thread) = ((words[FAULT] & 0xff) as i32, (words[FAULT] >> 8) as usize);
    let fault = (signal != 0).then(|| (signal, thread.checked_sub(1).and_then(ran)));
    Some(LeftOver { fault, running: (0..SLOTS).filter_map(ran).collect() })
}

#[cfg(unix)]
fn map(file: &File) -> io::Result<Words> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new place in memory, as long as the file is; nobody shortens the file, which is locked.
    let place = unsafe { mmap(std::ptr::null_mut(), WORDS * 8, read_write, shared, file, 0)? };
    // SAFETY: the mapping begins at a page, has as many words, and is never taken back. Every word may have any
    // value, and all who use it do so by atomic operations.
    Ok(unsafe { std::slice::from_raw_parts(place.cast::<AtomicU64>(), WORDS) })
}

#[cfg(not(unix))]
fn map(_: &File) -> io::Result<Words> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(unix))]
fn watch_faults() {}

/// Notes the thread of a fault that ends the process; whoever handled it before does so still.
#[cfg(unix)]
fn watch_faults() {
    for (number, old) in FAULTS.into_iter().zip(&BEFORE) {
        // SAFETY: an action of zeros is a valid one, and is filled in below.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both places are valid, and the handler does only what a handler of signals may.
        if unsafe { libc::sigaction(number, &action, &mut before) } == 0 {
            // Never freed: the handler reads it at any time.
            old.store(Box::into_raw(Box::new(before)), std::sync::atomic::Ordering::Release);
        }
    }
}

#[cfg(unix)]
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
#[cfg(unix)]
static BEFORE: [std::sync::atomic::AtomicPtr<libc::sigaction>; FAULTS.len()] =
    [const { std::sync::atomic::AtomicPtr::new(std::ptr::null_mut()) }; FAULTS.len()];

/// Runs in the middle of anything: it stores one word, writes one line, and leaves the rest to the handler that
/// was there before.
#[cfg(unix)]
extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if let Some(words) = WORDS_OF_PROCESS.get() {
        let thread = match OWN.get() {
            Own::Slot(number, own) if own[0].load(Relaxed) != 0 => {
                say_who((own[0].load(Relaxed) & (LOADING - 1)) as u32, words);
                u64::from(number) + 1
            }
            _ => 0,
        };
        let fault = u64::from(signal.unsigned_abs() & 0xff) | thread << 8;
        // The first fault is the cause; what it leads to is none.
        let _ = words[FAULT].compare_exchange(0, fault, Relaxed, Relaxed);
    }
    let place = FAULTS.iter().position(|fault| *fault == signal).unwrap_or(0);
    let before = BEFORE[place].load(std::sync::atomic::Ordering::Acquire);
    if before.is_null() {
        return;
    }
    // SAFETY: the action that was there before is valid and never freed. What was sent by a program does not come
    // again by itself, as a fault does: it is raised once more, and comes when this handler is left.
    unsafe {
        libc::sigaction(signal, before, std::ptr::null_mut());
        if !info.is_null() && (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Writes the id of a version to stderr, without anything that a handler of signals may not do.
#[cfg(unix)]
fn say_who(number: u32, words: Words) {
    let Some(version) = words.get(place_of(number.max(1))..) else { return };
    let mut id = [0; ID * 8];
    for (bytes, word) in id.chunks_exact_mut(8).zip(version) {
        bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    let length = id.iter().position(|byte| *byte == 0).unwrap_or(id.len());
    let parts: [&[u8]; 3] = [b"fatal: the plugin `", &id[..length], b"` ended this process\n"];
    for part in parts {
        // SAFETY: the bytes are valid for their length. A failed write is ignored: the message is best effort.
        let _ = unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::crash::Quarantine;

    const HASH_OF_A: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// The record of a process that ended two seconds after its clock began: this one's goes on.
    fn at_two_seconds(bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[BEAT * 8..][..8].copy_from_slice(&2_000_u64.to_le_bytes());
        bytes
    }

    fn ran(bytes: &[u8], id: &str) -> Option<LastRun> {
        left_over(&at_two_seconds(bytes))?.running.into_iter().find(|ran| ran.id == id)
    }

    /// One test, since a process has one record.
    #[test]
    fn the_next_start_finds_what_ran_and_quarantines_what_was_stuck_while_it_was_loaded() {
        let project = tempfile::tempdir().unwrap();
        let (record, caught) = Record::open(project.path());
        let record = record.unwrap();
        assert!(caught.is_empty());
        assert!(Record::open(project.path()).0.is_none(), "a process has one record");

        let version = Version::of("calls", HASH_OF_A);
        let again = Version::of("calls", HASH_OF_A);
        assert_eq!(version.0, again.0);
        drop(again);
        let before = running(&version, 1_000);
        let loads = loading("loads", HASH_OF_A, 1_500);
        let path = record.file.clone();
        let other = std::thread::spawn(move || {
            let version = Version::of("other", HASH_OF_A);
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

        // As left by another process that was killed while it loaded the file.
        let left = project.path().join(FOLDER).join("running-1");
        std::fs::write(&left, at_two_seconds(&bytes)).unwrap();
        let caught = judge_left_over(project.path(), &project.path().join(FOLDER));
        assert_eq!(caught.iter().map(|caught| caught.id.as_str()).collect::<Vec<_>>(), ["loads"]);
        assert!(!left.exists() && record.file.exists(), "the one of a process that lives stays");
        assert_eq!(Quarantine::of(project.path()).of_plugin("loads").len(), 1);

        // A file that is not a record is deleted, and the list stays as it is.
        std::fs::write(&left, b"VHRUN001").unwrap();
        assert!(judge_left_over(project.path(), &project.path().join(FOLDER)).is_empty());
        assert!(!left.exists());

        let path = record.file.clone();
        drop(record);
        assert!(!path.exists(), "who ends in order leaves nothing");
    }
}
