//! The file of a snapshot: a header that identifies its database, and the sealed content.

use super::content::Content;
use crate::clock::now;
use crate::error::{Place, StoreError, StoreErrorKind};
use crate::rows::json::encode;
use crate::seal::{SealKey, random_word};
use crate::sealing::KeyText;
use crate::sqlite::open::{private_file, private_folder};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use valvehouse_json::Json;

/// The format that this version writes, and the latest one that it reads.
const FORMAT: u64 = 1;
/// The maximum size of a file, in bytes.
const MAX_SIZE: u64 = 1 << 30;
const WRITING: &str = "write the snapshot of the store";
const READING: &str = "start from the snapshot of the store";
/// The prefix of the header, before its JSON.
const MARK: &str = "valvehouse snapshot ";

/// The database that files belong to: its name in the settings, and the proof of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The URL without user and password.
    pub(crate) database: String,
    /// The proof stored in the database, which is unique.
    pub(crate) proof: String,
}

/// A snapshot read from a file.
pub(super) struct Snapshot {
    pub(super) origin: Origin,
    pub(super) content: Content,
    /// The time at which it was written, in milliseconds since 1970.
    pub(super) at: i64,
}

/// Writes a snapshot atomically in place of the previous one. Returns its time, in milliseconds since 1970.
pub(super) fn write(
    file: &Path,
    origin: &Origin,
    key: &SealKey,
    content: &Content,
) -> Result<i64, StoreError> {
    let at = now();
    let place = Place::File(file.to_owned());
    let json = Json::from_serialize(content).map_err(|error| sqlx::Error::Encode(error.into()));
    let text = json.and_then(|json| encode(&json));
    let text = text.map_err(|error| StoreError::from_sqlx(WRITING, &place, &error))?;
    let head = head(origin, at, content.settings.generation);
    let sealed = key.seal(&text, &head);
    write_whole(file, format!("{head}\n{sealed}\n").as_bytes())
        .map_err(|error| StoreError::from_io(WRITING, &place, &error))?;
    Ok(at)
}

/// Reads the snapshot of a database with the configured key; `None` if there is none.
pub(super) fn read(
    file: &Path,
    database: &str,
    key: &KeyText,
) -> Result<Option<(Snapshot, SealKey)>, StoreError> {
    let place = Place::File(file.to_owned());
    let refused = |cause: String, help: &str| StoreError {
        help: Some(format!("{help}; a host that reaches its database writes a new one")),
        ..StoreError::new(READING, &place, StoreErrorKind::Damaged, cause)
    };
    let text = match read_whole(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::from_io(READING, &place, &error)),
        Ok(bytes) => bytes,
    };
    let damaged = || refused("it is damaged".to_owned(), "restore a copy of it, or remove it");
    let text = String::from_utf8(text).map_err(|_| damaged())?;
    let mut lines = text.lines();
    let (Some(head), Some(sealed), None) = (lines.next(), lines.next(), lines.next()) else {
        return Err(damaged());
    };
    let header = head.strip_prefix(MARK).and_then(|json| Json::parse(json.as_bytes()).ok());
    let header = header.ok_or_else(damaged)?;
    if header.count("format") > FORMAT {
        let cause = "it was written by a later version of valvehouse".to_owned();
        return Err(refused(cause, "run that version, or remove it"));
    }
    let origin = Origin { database: header.string("database"), proof: header.string("proof") };
    if origin.database != database {
        let cause = format!("it belongs to the database {}, but store.url names {database}", origin.database);
        return Err(refused(cause, "correct store.url, or remove it"));
    }
    let key = key.proven(&origin.proof)?.ok_or_else(|| {
        refused("it is sealed with another key".to_owned(), "correct [store] key, or remove it")
    })?;
    let plain = key.open(sealed, head).ok_or_else(damaged)?;
    // If any part is missing, that part could be a guard.
    let content = Json::parse(plain.as_bytes()).ok().and_then(|json| json.to().ok()).ok_or_else(damaged)?;
    let at = header.get("at").and_then(|at| at.as_i64()).ok_or_else(damaged)?;
    Ok(Some((Snapshot { origin, content, at }, key)))
}

/// Returns the header. It is not sealed, but it is part of the subject of the content.
fn head(origin: &Origin, at: i64, generation: u64) -> String {
    let header = Json::from([
        ("format", FORMAT.into()),
        ("database", origin.database.as_str().into()),
        ("proof", origin.proof.as_str().into()),
        ("generation", generation.into()),
        ("at", at.into()),
    ]);
    format!("{MARK}{header}")
}

/// Reads a file of the snapshot. A pipe or a device, which has no end, is rejected.
fn read_whole(file: &Path) -> io::Result<Vec<u8>> {
    check_kind(&std::fs::metadata(file)?)?;
    read_limited(&mut std::fs::File::open(file)?)
}

/// Checks that a file is a regular file.
pub(super) fn check_kind(metadata: &std::fs::Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file; remove it")),
    }
}

/// Reads an open file up to the maximum size.
pub(super) fn read_limited(file: &mut std::fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_SIZE {
        true => Err(io::Error::other(format!("it exceeded its limit of {} MiB; remove it", MAX_SIZE >> 20))),
        false => Ok(bytes),
    }
}

/// Writes a new file and renames it, so that a crash leaves either the old or the new content.
pub(super) fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        private_folder().create(folder)?;
    }
    let beside = beside(file, "new", &random_word()[..12]);
    let written = (|| {
        let mut new = private_file().open(&beside)?;
        new.write_all(content)?;
        new.sync_all()?;
        std::fs::rename(&beside, file)?;
        match folder {
            // The new name is durable once the folder is synchronized.
            #[cfg(unix)]
            Some(folder) => std::fs::File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    })();
    if written.is_err() {
        // The file may not exist.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Returns the path of a file that belongs to this one.
pub(super) fn beside(file: &Path, what: &str, name: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(format!(".{what}-{name}"));
    path.into()
}
