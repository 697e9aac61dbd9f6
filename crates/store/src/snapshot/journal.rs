//! The journal of kv changes that are not in the database yet, in a file next to the snapshot. Each write
//! appends one sealed line, which is durable when it returns.

use super::file::{Origin, beside, check_kind, read_limited};
use super::json::{change_from_json, change_to_json};
use crate::clock::now;
use crate::error::{Place, StoreError, StoreErrorKind};
use crate::kv::joined;
use crate::record::KvChange;
use crate::rows::json::encode;
use crate::seal::{SealKey, random_word};
use crate::sqlite::open::{private_file, private_folder};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use valvehouse_json::Json;

const FORMAT: u64 = 1;
const DOING: &str = "write the kv entries of scripts";
const READING: &str = "read the kv entries that changed while the database was unavailable";
const MARK: &str = "valvehouse kv ";
/// The size in bytes from which a mostly outdated file is rewritten.
const COMPACT: u64 = 1 << 20;

/// The changes that are not in the database yet, merged by entry.
pub(crate) struct Journal {
    snapshot: PathBuf,
    origin: Origin,
    key: SealKey,
    pending: BTreeMap<[String; 3], KvChange>,
    own: Option<Own>,
    /// The locked files of processes that ended.
    adopted: Vec<(PathBuf, File)>,
}

/// The locked file of this process.
struct Own {
    path: PathBuf,
    file: File,
    name: String,
    lines: u64,
    size: u64,
    /// Its size after the last rewrite, when nothing in it was outdated.
    compact: u64,
}

impl Journal {
    /// Adopts the files next to a snapshot whose processes have ended.
    ///
    /// # Errors
    /// Returns an error if one of the files is damaged or belongs to another database.
    pub(super) fn adopt(snapshot: &Path, origin: &Origin, key: &SealKey) -> Result<Self, StoreError> {
        let mut journal = Self {
            snapshot: snapshot.to_owned(),
            origin: origin.clone(),
            key: key.clone(),
            pending: BTreeMap::new(),
            own: None,
            adopted: Vec::new(),
        };
        for path in files(snapshot) {
            let place = Place::File(path.clone());
            let failed = |error: io::Error| StoreError::from_io(READING, &place, &error);
            match std::fs::metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                found => found.and_then(|found| check_kind(&found)).map_err(failed)?,
            }
            let mut file = match File::options().read(true).write(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            match file.try_lock() {
                Ok(()) => {}
                // The process that writes it is running.
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            let text = read_limited(&mut file).map_err(failed)?;
            journal.read(&text).map_err(|cause| StoreError {
                help: Some("remove it; the kv entries that changed since then are lost with it".to_owned()),
                ..StoreError::new(READING, &place, StoreErrorKind::Damaged, cause)
            })?;
            journal.adopted.push((path, file));
        }
        Ok(journal)
    }

    fn read(&mut self, text: &[u8]) -> Result<(), String> {
        // An incomplete line was never acknowledged.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let damaged = || "it is damaged".to_owned();
        let text = str::from_utf8(&text[..whole]).map_err(|_| damaged())?;
        let mut lines = text.lines();
        // The process ended before it wrote anything.
        let Some(head) = lines.next() else { return Ok(()) };
        let header = head.strip_prefix(MARK).and_then(|json| Json::parse(json.as_bytes()).ok());
        let header = header.ok_or_else(damaged)?;
        if header.count("format") > FORMAT {
            return Err("it was written by a later version of valvehouse".to_owned());
        }
        if header.string("database") != self.origin.database || header.string("proof") != self.origin.proof {
            return Err("it belongs to another database".to_owned());
        }
        for (number, line) in lines.enumerate() {
            let plain =
                self.key.open(line, &about(&header.string("name"), number as u64)).ok_or_else(damaged)?;
            let json = Json::parse(plain.as_bytes()).map_err(|_| damaged())?;
            for change in json.items() {
                self.remember(change_from_json(&change).ok_or_else(damaged)?);
            }
        }
        Ok(())
    }

    fn remember(&mut self, change: KvChange) {
        let place = change.place().map(str::to_owned);
        let change = joined(self.pending.get(&place), change, now());
        self.pending.insert(place, change);
    }

    /// Returns the changes, at most one per entry.
    pub(crate) fn pending(&self) -> Vec<KvChange> {
        self.pending.values().cloned().collect()
    }

    /// Appends changes, which are durable when this returns.
    ///
    /// # Errors
    /// Returns an error if the disk is full or fails. Nothing is written then.
    pub(crate) fn append(&mut self, changes: &[KvChange]) -> Result<(), StoreError> {
        let place = Place::File(self.own.as_ref().map_or(&self.snapshot, |own| &own.path).clone());
        let failed = |error: &io::Error| StoreError::from_io(DOING, &place, error);
        let line = lines(changes).map_err(|error| StoreError::from_sqlx(DOING, &place, &error))?;
        let mut own = match self.own.take() {
            Some(own) => own,
            None => self.begin().map_err(|error| failed(&error))?,
        };
        let appended = own.append(&self.key, &line);
        let is_outdated = own.size > COMPACT && own.size > 4 * own.compact;
        self.own = Some(own);
        appended.map_err(|error| failed(&error))?;
        changes.iter().cloned().for_each(|change| self.remember(change));
        if is_outdated && let Err(error) = self.compact() {
            tracing::warn!("cannot compact the changes that wait for the database: {error}");
        }
        Ok(())
    }

    /// Creates the file of this process.
    fn begin(&self) -> io::Result<Own> {
        if let Some(folder) = self.snapshot.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_folder().create(folder)?;
        }
        let name = random_word()[..12].to_owned();
        let path = beside(&self.snapshot, "kv", &name);
        let mut file = private_file().open(&path)?;
        let header = Json::from([
            ("format", FORMAT.into()),
            ("database", self.origin.database.as_str().into()),
            ("proof", self.origin.proof.as_str().into()),
            ("name", name.as_str().into()),
        ]);
        let head = format!("{MARK}{header}\n");
        let started = file.try_lock().map_err(io::Error::from).and_then(|()| file.write_all(head.as_bytes()));
        if let Err(error) = started {
            // On a full disk, each attempt would leave an empty file.
            std::fs::remove_file(&path)?;
            return Err(error);
        }
        let size = head.len() as u64;
        Ok(Own { path, file, name, lines: 0, size, compact: size })
    }

    /// Writes all changes into one new file, which replaces the others.
    fn compact(&mut self) -> Result<(), io::Error> {
        let line = lines(&self.pending()).map_err(io::Error::other)?;
        let mut own = self.begin()?;
        own.append(&self.key, &line)?;
        own.compact = own.size;
        let old = self.own.replace(own).map(|own| own.path);
        let adopted = std::mem::take(&mut self.adopted);
        for path in adopted.into_iter().map(|(path, _)| path).chain(old) {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Removes all files, because the database has their changes.
    pub(super) fn clear(&mut self) {
        self.take_files(|path| std::fs::remove_file(path));
    }

    /// Renames all files, because the database rejects their changes. Renamed files are not read.
    pub(super) fn set_aside(&mut self) {
        self.take_files(|path| std::fs::rename(path, path.with_extension("refused")));
    }

    fn take_files(&mut self, away: impl Fn(&Path) -> io::Result<()>) {
        self.pending.clear();
        let own = self.own.take().map(|own| (own.path, own.file));
        for (path, _lock) in std::mem::take(&mut self.adopted).into_iter().chain(own) {
            if let Err(error) = away(&path) {
                tracing::warn!("cannot move {} away: {error}", path.display());
            }
        }
    }
}

impl Own {
    fn append(&mut self, key: &SealKey, line: &str) -> io::Result<()> {
        let line = format!("{}\n", key.seal(line, &about(&self.name, self.lines)));
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // The next line must not follow an incomplete one.
            self.file.set_len(self.size)?;
            std::io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.size))?;
            return Err(error);
        }
        self.lines += 1;
        self.size += line.len() as u64;
        Ok(())
    }
}

/// Returns the subject that a line is sealed for.
fn about(name: &str, number: u64) -> String {
    format!("kv {name} {number}")
}

fn lines(changes: &[KvChange]) -> Result<String, sqlx::Error> {
    encode(&changes.iter().map(change_to_json).collect::<Result<Vec<_>, _>>()?.into())
}

/// Returns the files next to a snapshot, oldest first.
fn files(snapshot: &Path) -> Vec<PathBuf> {
    let begin = beside(snapshot, "kv", "");
    let (Some(folder), Some(begin)) = (snapshot.parent(), begin.file_name()) else { return Vec::new() };
    let begin = begin.to_string_lossy();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let own = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(&*begin) && !name.ends_with(".refused")
    });
    let mut found: Vec<_> =
        own.map(|entry| (entry.metadata().and_then(|data| data.modified()).ok(), entry.path())).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::KvRow;

    fn origin(database: &str) -> Origin {
        Origin { database: database.into(), proof: "p".into() }
    }

    fn set(key: &str, value: i64) -> KvChange {
        let (plugin, scope) = ("a".into(), "shared".into());
        KvChange::Set(KvRow { plugin, scope, key: key.into(), value: value.into(), expires_at: None })
    }

    #[test]
    fn acknowledged_entries_survive_a_crash_and_a_partial_line_is_ignored() {
        let (folder, key) = (tempfile::tempdir().unwrap(), SealKey::of(&random_word()).unwrap());
        let snapshot = folder.path().join("snapshot");
        let open = |database: &str| Journal::adopt(&snapshot, &origin(database), &key);
        let mut journal = open("db").unwrap();
        let gone = KvChange::Delete { plugin: "a".into(), scope: "shared".into(), key: "x".into() };
        journal.append(&[set("x", 1), set("y", 2)]).unwrap();
        journal.append(&[gone.clone(), set("y", 3)]).unwrap();
        let expected = [gone, set("y", 3)];
        assert!(open("db").unwrap().pending().is_empty(), "the process that writes it lives");
        drop(journal);
        let [file] = &files(&snapshot)[..] else { panic!("one file") };
        let whole = std::fs::read(file).unwrap();
        std::fs::write(file, [&whole[..], b"sealed:half of a li"].concat()).unwrap();
        assert_eq!(open("db").unwrap().pending(), expected);
        assert!(open("other").is_err_and(|error| error.to_string().contains("belongs to another database")));
        let mut changed = whole.clone();
        let at = whole.len() - 20;
        changed[at] ^= 1;
        std::fs::write(file, changed).unwrap();
        assert!(open("db").is_err_and(|error| error.to_string().contains("damaged")));
        std::fs::write(file, whole).unwrap();
        let mut next = open("db").unwrap();
        next.append(&[set("z", 9)]).unwrap();
        assert_eq!(next.pending().len(), 3);
        next.clear();
        assert!(files(&snapshot).is_empty());
    }

    #[test]
    fn changes_that_the_database_refuses_stay_in_a_file_that_is_not_read() {
        let (folder, key) = (tempfile::tempdir().unwrap(), SealKey::of(&random_word()).unwrap());
        let snapshot = folder.path().join("snapshot");
        let mut journal = Journal::adopt(&snapshot, &origin("db"), &key).unwrap();
        journal.append(&[set("x", 1)]).unwrap();
        journal.set_aside();
        assert!(journal.pending().is_empty() && files(&snapshot).is_empty());
        let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(left.filter(|path| path.extension().is_some_and(|kind| kind == "refused")).count(), 1);
    }

    #[test]
    fn a_frequently_written_counter_keeps_the_journal_small() {
        let (folder, key) = (tempfile::tempdir().unwrap(), SealKey::of(&random_word()).unwrap());
        let snapshot = folder.path().join("snapshot");
        let mut journal = Journal::adopt(&snapshot, &origin("db"), &key).unwrap();
        let padding = "x".repeat(60_000);
        for number in 0..60 {
            journal.append(&[set("x", number), set(&padding, number)]).unwrap();
        }
        drop(journal);
        let size: u64 = files(&snapshot).iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(size < 2 * COMPACT, "{size}");
        let read = Journal::adopt(&snapshot, &origin("db"), &key).unwrap();
        assert!(read.pending().contains(&set("x", 59)) && read.pending().len() == 2);
    }
}
