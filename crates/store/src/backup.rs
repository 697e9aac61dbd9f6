//! Backups of an SQLite store, and their return.

use crate::clock::now;
use crate::error::{Place, StoreError, StoreErrorKind};
use crate::record::alive;
use crate::seal::random_word;
use crate::sealing::{KeyFrom, KeyText};
use crate::sqlite::open::{CONTENDED, is_of_newer_version, private_file, private_folder, with_suffix};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use valvehouse_grants::{SecretSource, StoreAddress, StoreSettings};

const BACKUP: &str = "back up the store";
const RESTORE: &str = "restore the store";

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// The file with the key, beside the backup; `None` if the settings name the key.
    pub key: Option<PathBuf>,
}

/// Writes a consistent copy of the store to a new file for this user only, with its key beside it. Hosts may run and
/// write meanwhile; the copy has everything that was acknowledged before it began.
///
/// # Errors
/// Returns an error for a Postgres database, if the store or its key is missing, if one of the files exists, or if they
/// cannot be read or written.
pub async fn backup(settings: &StoreSettings, to: &Path) -> Result<Backup, StoreError> {
    let store = file_of(settings, BACKUP, "back it up with pg_dump, and keep the key ([store] key)")?;
    let key_file = to.with_extension("key");
    let unused = |file: &Path| match file.exists() {
        true => Err(refused(BACKUP, file, "it exists", "name a new file")),
        false => Ok(()),
    };
    unused(to)?;
    if key_file == to {
        return Err(refused(BACKUP, to, "its key is written to this name", "name a file such as backup.db"));
    }
    let from = KeyFrom::of_file(store, settings.key.as_ref());
    let key = KeyText::read(&Place::File(store.clone()), from, true)?;
    let key_file = settings.key.is_none().then_some(key_file);
    if let Some(file) = &key_file {
        unused(file)?;
    }
    let staged = StagedCopy::copy(store, to, BACKUP).await?;
    key.opens(&staged.proof)?;
    let bytes = fs::metadata(&staged.file).map_or(0, |metadata| metadata.len());
    if let Some(file) = &key_file {
        write_key(file, &key).map_err(|error| unwritable(BACKUP, file, &error))?;
    }
    staged.publish(to, BACKUP)?;
    Ok(Backup { bytes, key: key_file })
}

/// The outcome of a restoration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoration {
    /// The file of the former store, with its key beside it; `None` if there was none.
    pub former: Option<PathBuf>,
}

/// Replaces the store by a backup. The former store and its key are kept beside it under other names.
///
/// # Errors
/// Returns an error for a Postgres database, if a process uses the store, or if the backup is damaged, of a newer version
/// or sealed with another key. The store is unchanged then.
pub async fn restore(settings: &StoreSettings, from: &Path) -> Result<Restoration, StoreError> {
    let store = file_of(settings, RESTORE, "restore it with pg_restore or psql")?;
    if fs::metadata(from).is_err() {
        return Err(refused(
            RESTORE,
            from,
            "there is no such file",
            "name a file of `valvehouse store backup`",
        ));
    }
    if let Some(folder) = store.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder().create(folder).map_err(|error| unwritable(RESTORE, folder, &error))?;
    }
    let mut staged = StagedCopy::copy(from, store, RESTORE).await?;
    staged.is_sound(from).await?;
    let key = key_of_backup(settings.key.as_ref(), &staged.proof, from, store)?;
    release(store).await?;
    let former = fs::exists(store).unwrap_or(false).then(|| name_of_former(store));
    let staged_key = with_suffix(&staged.file, ".key");
    let moved = || -> std::io::Result<()> {
        if let Some(key) = &key {
            write_key(&staged_key, key)?;
        }
        if let Some(former) = &former {
            keep(store, former)?;
        }
        if key.is_some() {
            fs::rename(&staged_key, store.with_extension("key"))?;
        }
        Ok(())
    };
    moved().map_err(|error| unwritable(RESTORE, store, &error))?;
    staged.publish(store, RESTORE)?;
    Ok(Restoration { former })
}

/// Returns the file of an SQLite store.
fn file_of<'s>(settings: &'s StoreSettings, doing: &str, way: &str) -> Result<&'s PathBuf, StoreError> {
    match &settings.address {
        StoreAddress::Sqlite(file) => Ok(file),
        StoreAddress::Postgres(_) => Err(StoreError {
            doing: doing.to_owned(),
            place: "postgres".to_owned(),
            kind: StoreErrorKind::Refused,
            cause: "it is a Postgres database".to_owned(),
            help: Some(way.to_owned()),
        }),
    }
}

/// Returns the key of the restored store for the file beside it; `None` if the settings name the key.
fn key_of_backup(
    settings: Option<&SecretSource>,
    proof: &str,
    backup: &Path,
    store: &Path,
) -> Result<Option<KeyText>, StoreError> {
    if settings.is_some() {
        let place = Place::File(backup.to_owned());
        KeyText::read(&place, KeyFrom::of_file(backup, settings), true)?.opens(proof)?;
        return Ok(None);
    }
    // Without a key beside the backup, it may be sealed with that of the store.
    let beside = [backup, store].into_iter().find(|file| file.with_extension("key").exists());
    let beside = beside.unwrap_or(backup);
    let key = KeyText::read(&Place::File(beside.to_owned()), KeyFrom::Beside(beside), true)?;
    key.opens(proof)?;
    Ok(Some(key))
}

/// Makes sure that no process uses a store, and that its file is complete without a write-ahead log. A store that is
/// damaged is left as it is.
async fn release(store: &Path) -> Result<(), StoreError> {
    let Ok(mut connection) = connect(store).await else { return Ok(()) };
    let hosts = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM hosts WHERE seen_at >= ?").bind(alive());
    if hosts.fetch_one(&mut connection).await.is_ok_and(|hosts| hosts > 0) {
        return Err(refused(RESTORE, store, "a host is running on it", "stop it first"));
    }
    let left = sqlx::raw_sql("PRAGMA journal_mode = DELETE").execute(&mut connection).await;
    let place = Place::File(store.to_owned());
    match left.map_err(|error| StoreError::from_sqlx(RESTORE, &place, &error)) {
        Err(error) if error.kind == StoreErrorKind::Busy => {
            Err(refused(RESTORE, store, "another process uses it", "stop it first"))
        }
        _ => Ok(()),
    }
}

/// Keeps a store, its log and its key under another name.
fn keep(store: &Path, former: &Path) -> std::io::Result<()> {
    for log in ["-wal", "-shm"] {
        match fs::rename(with_suffix(store, log), with_suffix(former, log)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // The name stays in use until the restored file takes it: without a file, a host would begin with an empty store.
    fs::hard_link(store, former)?;
    match fs::hard_link(store.with_extension("key"), former.with_extension("key")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn name_of_former(store: &Path) -> PathBuf {
    let name =
        |part: Option<&OsStr>| part.map_or_else(|| "db".into(), |part| part.to_string_lossy().into_owned());
    let (stem, extension) = (name(store.file_stem()), name(store.extension()));
    store.with_file_name(format!("{stem}-before-restore-{}.{extension}", now()))
}

/// A complete copy of a store under a temporary name, deleted unless it is published.
struct StagedCopy {
    file: PathBuf,
    proof: String,
}

impl StagedCopy {
    /// Copies a store, with what is in its write-ahead log, beside the file that it is for.
    async fn copy(from: &Path, to: &Path, doing: &'static str) -> Result<Self, StoreError> {
        let place = Place::File(from.to_owned());
        let failed = |error| StoreError::from_sqlx(doing, &place, &error);
        if fs::metadata(from).is_err() {
            return Err(refused(doing, from, "there is no such file", "check store.url"));
        }
        let mut connection = connect(from).await.map_err(failed)?;
        let proof = sqlx::query_scalar("SELECT proof FROM sealing").fetch_optional(&mut connection).await;
        let Some(proof) = proof.map_err(failed)? else {
            return Err(refused(doing, from, "it is not a store", "name the file of a store"));
        };
        let staged = Self { file: with_suffix(to, &format!("-{}", &random_word()[..12])), proof };
        private_file().open(&staged.file).map_err(|error| unwritable(doing, &staged.file, &error))?;
        let written =
            sqlx::query("VACUUM INTO ?").bind(staged.file.to_string_lossy()).execute(&mut connection);
        written.await.map_err(failed)?;
        connection.close().await.map_err(failed)?;
        Ok(staged)
    }

    /// Checks the copy of a backup, and removes the hosts of its time.
    async fn is_sound(&mut self, backup: &Path) -> Result<(), StoreError> {
        let place = Place::File(backup.to_owned());
        let failed = |error| StoreError::from_sqlx(RESTORE, &place, &error);
        let mut connection = connect(&self.file).await.map_err(failed)?;
        if is_of_newer_version(&mut connection).await.map_err(failed)? {
            let cause = "it was written by a newer version of valvehouse";
            return Err(StoreError::new(RESTORE, &place, StoreErrorKind::NewerSchema, cause));
        }
        let check = sqlx::query_scalar::<_, String>("PRAGMA integrity_check(1)");
        let found = check.fetch_one(&mut connection).await.map_err(failed)?;
        if found != "ok" {
            return Err(StoreError::new(RESTORE, &place, StoreErrorKind::Damaged, found));
        }
        sqlx::raw_sql("DELETE FROM hosts").execute(&mut connection).await.map_err(failed)?;
        connection.close().await.map_err(failed)
    }

    /// Gives the copy its name once it is on disk.
    fn publish(&self, to: &Path, doing: &'static str) -> Result<(), StoreError> {
        let moved = fs::File::open(&self.file).and_then(|file| file.sync_all());
        moved.and_then(|()| fs::rename(&self.file, to)).map_err(|error| unwritable(doing, to, &error))
    }
}

impl Drop for StagedCopy {
    fn drop(&mut self) {
        // Nothing is there once it is published.
        let _ = fs::remove_file(&self.file);
    }
}

/// Opens a file as it is: it is neither created nor migrated.
pub(crate) async fn connect(file: &Path) -> sqlx::Result<SqliteConnection> {
    SqliteConnectOptions::new().filename(file).busy_timeout(CONTENDED).connect().await
}

fn write_key(file: &Path, key: &KeyText) -> std::io::Result<()> {
    let mut new = private_file().open(file)?;
    writeln!(new, "{}", key.as_str())?;
    new.sync_all()
}

fn unwritable(doing: &str, file: &Path, error: &std::io::Error) -> StoreError {
    StoreError::from_io(doing, &Place::File(file.to_owned()), error)
}

fn refused(doing: &str, file: &Path, cause: &str, help: &str) -> StoreError {
    let error = StoreError::new(doing, &Place::File(file.to_owned()), StoreErrorKind::Refused, cause);
    StoreError { help: Some(help.to_owned()), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, check, open};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
    use valvehouse_grants::Secret;
    use valvehouse_json::Json;

    fn settings(file: &Path) -> StoreSettings {
        StoreSettings::at(StoreAddress::Sqlite(file.to_owned()), None)
    }

    async fn set(store: &Store, number: i64) {
        let value = Json::from([("number", number.into())]);
        store.replace_valves("a", None, &value, "test").await.unwrap();
    }

    async fn number_in(file: &Path) -> i64 {
        let store = open(&settings(file)).await.unwrap();
        let number = store.valves("a", None).await.unwrap().field("number").as_i64();
        store.close().await;
        number.unwrap_or(0)
    }

    /// A folder with a store whose valve is 1.
    async fn stored() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        let store = open(&settings(&file)).await.unwrap();
        set(&store, 1).await;
        store.close().await;
        (folder, file)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_under_write_load_has_all_acknowledged_rows() {
        let (folder, file) = stored().await;
        let store = open(&settings(&file)).await.unwrap();
        let (acknowledged, writer) = (Arc::new(AtomicI64::new(1)), store.clone());
        let counter = acknowledged.clone();
        let writing = tokio::spawn(async move {
            for number in 2.. {
                set(&writer, number).await;
                counter.store(number, SeqCst);
            }
        });
        for round in 0..5 {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            let before = acknowledged.load(SeqCst);
            let to = folder.path().join(format!("backup-{round}.db"));
            let made = backup(&settings(&file), &to).await.unwrap();
            assert_eq!(
                (made.bytes, made.key),
                (to.metadata().unwrap().len(), Some(to.with_extension("key")))
            );
            let there = number_in(&to).await;
            assert!((before..=acknowledged.load(SeqCst) + 1).contains(&there), "{before} {there}");
            assert!(check(&settings(&to)).await.unwrap().problems.is_empty());
        }
        writing.abort();
    }

    #[cfg(unix)]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_is_private_and_overwrites_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, file) = stored().await;
        let to = folder.path().join("backup.db");
        backup(&settings(&file), &to).await.unwrap();
        for written in [&to, &to.with_extension("key")] {
            assert_eq!(written.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        let before = (names(), std::fs::read(&to).unwrap());
        let error = backup(&settings(&file), &to).await.unwrap_err().to_string();
        assert!(error.contains("backup.db): it exists; name a new file"), "{error}");
        std::fs::remove_file(&to).unwrap();
        let error = backup(&settings(&file), &to).await.unwrap_err().to_string();
        assert!(error.contains("backup.key): it exists"), "{error}");
        std::fs::write(&to, &before.1).unwrap();
        assert_eq!(names(), before.0, "nothing is left of the failed backups");
        let missing = backup(&settings(&folder.path().join("none.db")), &folder.path().join("b.db")).await;
        assert!(missing.unwrap_err().to_string().contains("is missing"));
        let postgres = StoreSettings::at(StoreAddress::Postgres(Secret::new("postgres://a@b/c")), None);
        let error = backup(&postgres, &folder.path().join("b.db")).await.unwrap_err().to_string();
        assert!(error.contains("pg_dump"), "{error}");
        assert_eq!(names(), before.0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_restored_store_has_the_rows_of_the_backup_and_the_former_one_stays() {
        let (folder, file) = stored().await;
        let to = folder.path().join("backup.db");
        backup(&settings(&file), &to).await.unwrap();
        let store = open(&settings(&file)).await.unwrap();
        set(&store, 2).await;
        let used = restore(&settings(&file), &to).await.unwrap_err().to_string();
        assert!(used.contains("another process uses it; stop it first"), "{used}");
        store.announce("host", 1, 1, None).await.unwrap();
        let used = restore(&settings(&file), &to).await.unwrap_err().to_string();
        assert!(used.contains("a host is running on it"), "{used}");
        store.leave("host").await.unwrap();
        store.close().await;
        let former = restore(&settings(&file), &to).await.unwrap().former.unwrap();
        assert_eq!([number_in(&file).await, number_in(&former).await, number_in(&to).await], [1, 2, 1]);
        // Onto another machine.
        let other = folder.path().join("other/state.db");
        assert_eq!(restore(&settings(&other), &to).await.unwrap().former, None);
        assert_eq!(number_in(&other).await, 1);
        assert!(restore(&settings(&file), &former).await.unwrap().former.is_some());
        assert_eq!(number_in(&file).await, 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_restored_store_has_no_hosts_of_the_backup() {
        let (folder, file) = stored().await;
        let store = open(&settings(&file)).await.unwrap();
        store.announce("host", 1, 1, None).await.unwrap();
        let to = folder.path().join("backup.db");
        backup(&settings(&file), &to).await.unwrap();
        store.close().await;
        let other = settings(&folder.path().join("other/state.db"));
        restore(&other, &to).await.unwrap();
        let store = open(&other).await.unwrap();
        assert_eq!(store.hosts().await.unwrap().len(), 0);
        store.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_that_cannot_be_used_changes_nothing() {
        let (folder, file) = stored().await;
        let (_folder, foreign) = stored().await;
        let to = folder.path().join("backup.db");
        backup(&settings(&foreign), &to).await.unwrap();
        std::fs::remove_file(to.with_extension("key")).unwrap();
        let refused = async |expected: &str| {
            let error = restore(&settings(&file), &to).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(number_in(&file).await, 1);
        };
        refused("it is not the key that the values in the store are sealed with").await;
        let mut connection = connect(&to).await.unwrap();
        let newer = "INSERT INTO _sqlx_migrations SELECT 9999, 'x', installed_on, success, checksum, 0 FROM _sqlx_migrations LIMIT 1";
        sqlx::raw_sql(newer).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        refused("it was written by a newer version").await;
        std::fs::write(&to, "not a database, but a text of some length").unwrap();
        refused("file is not a database").await;
        std::fs::write(&to, "").unwrap();
        refused("no such table").await;
        std::fs::remove_file(&to).unwrap();
        refused("there is no such file").await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_of_the_file_alone_is_never_silently_empty() {
        let (folder, file) = stored().await;
        let store = open(&settings(&file)).await.unwrap();
        set(&store, 2).await;
        store.complete_file().await;
        let copy = folder.path().join("copy.db");
        std::fs::copy(&file, &copy).unwrap();
        let error = open(&settings(&copy)).await.map(drop).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Sealed, "{error}");
        std::fs::copy(file.with_extension("key"), copy.with_extension("key")).unwrap();
        assert_eq!(number_in(&copy).await, 2);
        // A file whose tables are all in its log.
        let head = folder.path().join("head.db");
        let mut connection =
            SqliteConnectOptions::new().filename(&head).create_if_missing(true).connect().await.unwrap();
        sqlx::raw_sql("PRAGMA journal_mode = WAL").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let error = open(&settings(&head)).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("it is a copy without its write-ahead log"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_check_finds_loose_references_and_values_that_the_key_does_not_open() {
        let (folder, file) = stored().await;
        let checked = check(&settings(&file)).await.unwrap();
        assert_eq!((checked.problems.len(), checked.opened), (0, 1), "{checked:?}");
        assert!(checked.rows.contains(&("valves".to_owned(), 1)), "{checked:?}");
        let mut connection = connect(&file).await.unwrap();
        let damage = "PRAGMA foreign_keys = OFF; UPDATE valves SET content = 'sealed:AAAA';
            INSERT INTO messages (conversation, place, content) VALUES (77, 0, '{}')";
        sqlx::raw_sql(damage).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let problems = check(&settings(&file)).await.unwrap().problems;
        let expected = [
            "messages: a row refers to a missing row of conversations",
            "valves: 1 sealed values cannot be opened",
        ];
        assert_eq!(problems, expected);
        let missing = check(&settings(&folder.path().join("none.db"))).await.unwrap_err();
        assert!(missing.to_string().contains("there is no such file"));
        assert!(!folder.path().join("none.db").exists());
    }
}
