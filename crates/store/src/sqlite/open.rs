//! Opening of the SQLite file: it is created for this user only, and its schema is migrated.

use crate::error::{Place, StoreError, StoreErrorKind};
use crate::sql::{Pool, Session};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqlStr, SqliteConnection, SqlitePool};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// The number, title and SQL of each file in `crates/store/src/migrations`.
const FILES: &[(i64, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |(number, title, text): &(i64, &'static str, &'static str)| {
        Migration::new(*number, (*title).into(), MigrationType::Simple, SqlStr::from_static(text), false)
    };
    Migrator::with_migrations(FILES.iter().map(migration).collect())
});

const DOING: &str = "open the store";
const TRIES: u32 = 40;
/// Deleted content is overwritten within pages that are written anyway, which costs no input or output; pages that become
/// free are overwritten by `erase`.
pub(super) const SECURE_DELETE: &str = "FAST";
const PAUSE: Duration = Duration::from_millis(50);
/// The time for which a writer waits for the lock of another process, so that waiting requests are answered
/// within a second.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_millis(800);
/// The same time while other processes write: then the lock is contended rather than held.
pub(crate) const CONTENDED: Duration = Duration::from_secs(10);

/// Opens a pool whose commits wait for the disk, and one whose commits do not.
pub(crate) async fn open(file: &Path) -> Result<(Pool, Pool), StoreError> {
    create(file)?;
    check_has_tables(file).await?;
    let mut tries = 1;
    loop {
        match connect(file).await {
            // Switching to the write-ahead log fails immediately while another process does the same.
            Err(error) if error.kind == StoreErrorKind::Busy && tries < TRIES => tries += 1,
            result => return result,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn connect(file: &Path) -> Result<(Pool, Pool), StoreError> {
    let place = &Place::File(file.to_owned());
    let options = SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("secure_delete", SECURE_DELETE)
        .busy_timeout(LOCK_TIMEOUT);
    let failed = |error| StoreError::from_sqlx(DOING, place, &error);
    let durable = pool_options()
        .max_connections(1)
        .connect_with(options.clone().synchronous(SqliteSynchronous::Full))
        .await
        .map_err(failed)?;
    migrate(&durable).await.map_err(|error| StoreError::from_migration(DOING, place, &error))?;
    let swift = pool_options()
        .max_connections(2)
        .connect_with(options.synchronous(SqliteSynchronous::Normal))
        .await
        .map_err(failed)?;
    Ok((Pool::Sqlite(durable), Pool::Sqlite(swift)))
}

/// Returns the options of the pools. A connection whose transaction failed with a disk error still counts as
/// in a transaction and cannot start another; it is closed and replaced.
fn pool_options() -> SqlitePoolOptions {
    // Testing each connection would cost as much as a read, and a file does not become unreachable.
    SqlitePoolOptions::new().test_before_acquire(false).before_acquire(|connection, _| {
        let is_free = !connection.is_in_transaction();
        Box::pin(async move { Ok(is_free) })
    })
}

async fn migrate(pool: &SqlitePool) -> Result<(), MigrateError> {
    let mut tries = 1;
    loop {
        match MIGRATIONS.run(pool).await {
            // sqlx takes no lock on SQLite, so another process may be creating the same tables.
            Err(MigrateError::Execute(_) | MigrateError::ExecuteMigration(..)) if tries < TRIES => tries += 1,
            result => return result,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Opens an empty store in memory, which has the tables of every store.
pub(crate) async fn in_memory() -> sqlx::Result<Session> {
    let pool = pool_options().max_connections(1).connect("sqlite::memory:").await?;
    MIGRATIONS.run(&pool).await?;
    Pool::Sqlite(pool).session().await
}

/// Creates the folder and the file for this user only, because they contain secrets.
fn create(file: &Path) -> Result<(), StoreError> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        const MAKING: &str = "create the store's folder";
        private_folder().create(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => StoreError::new(
                MAKING,
                &Place::File(folder.to_owned()),
                StoreErrorKind::NotADatabase,
                "this is a file, not a folder",
            ),
            _ => StoreError::from_io(MAKING, &Place::File(folder.to_owned()), &error),
        })?;
    }
    // An existing file is not opened here, because closing it would release SQLite's locks of this process.
    match private_file().open(file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(StoreError::from_io("create the store's file", &Place::File(file.to_owned()), &error))
        }
        _ => Ok(()),
    }
}

/// Rejects a file that has only its head: all of its rows were in the write-ahead log, which was not copied with it.
async fn check_has_tables(file: &Path) -> Result<(), StoreError> {
    /// The size of a page, of which the head is one.
    const HEAD: u64 = 4096;
    for _ in 0..TRIES / 4 {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        if length != HEAD || with_suffix(file, "-wal").exists() {
            return Ok(());
        }
        // Another process may be creating the store.
        tokio::time::sleep(PAUSE).await;
    }
    let cause = "it has no tables: it is a copy without its write-ahead log";
    let error = StoreError::new(DOING, &Place::File(file.to_owned()), StoreErrorKind::Damaged, cause);
    let help = "restore a backup (valvehouse store restore FILE), or move the file away to begin with an empty store";
    Err(StoreError { help: Some(help.to_owned()), ..error })
}

/// Returns a file beside this one, such as its write-ahead log.
pub(crate) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Writes the write-ahead log to the file, as far as no reader uses an older state, so that the file can be used without
/// its log.
pub(crate) async fn checkpoint(pool: &Pool) -> sqlx::Result<()> {
    #[allow(irrefutable_let_patterns, reason = "the only one without the feature `postgres`")]
    let Pool::Sqlite(pool) = pool else { return Ok(()) };
    sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(pool).await.map(drop)
}

/// Returns `true` if a file has the tables of a newer version.
pub(crate) async fn is_of_newer_version(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    let newest = "SELECT COALESCE(max(version), 0) FROM _sqlx_migrations";
    let newest: i64 = sqlx::query_scalar(newest).fetch_one(connection).await?;
    Ok(FILES.iter().all(|(number, ..)| *number < newest))
}

/// Returns `true` if the write-ahead log was written within the lock timeout: other processes use the lock in
/// turn, rather than one of them holding it.
pub(crate) fn is_contended(file: &Path) -> bool {
    let written = std::fs::metadata(with_suffix(file, "-wal")).and_then(|metadata| metadata.modified());
    written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < LOCK_TIMEOUT))
}

pub(crate) fn private_folder() -> std::fs::DirBuilder {
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder
}

pub(crate) fn private_file() -> std::fs::OpenOptions {
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file
}
