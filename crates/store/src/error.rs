//! Errors of the store: the operation, the place, the reason, and the fix.

use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_core::error::{Error, Explanation};

/// The kind of a store error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The database cannot be written.
    ReadOnly,
    /// The file is not a database.
    NotADatabase,
    /// The schema belongs to a newer version.
    NewerSchema,
    /// The schema belongs to an older version, and hosts may not migrate it.
    OlderSchema,
    /// Other processes held its lock for too long; a retry may succeed.
    Busy,
    /// The disk is full.
    Full,
    /// The disk has errors: a device error, a quota, a limit of file sizes.
    Failing,
    /// The database is corrupt.
    Damaged,
    /// No store can store the value or execute the request.
    Refused,
    /// The key of the store is missing or wrong.
    Sealed,
    /// The database server does not respond.
    Unreachable,
    /// Anything else.
    Other,
}

const STORE_ERROR_KINDS: [StoreErrorKind; 12] = [
    StoreErrorKind::ReadOnly,
    StoreErrorKind::NotADatabase,
    StoreErrorKind::NewerSchema,
    StoreErrorKind::OlderSchema,
    StoreErrorKind::Busy,
    StoreErrorKind::Full,
    StoreErrorKind::Failing,
    StoreErrorKind::Damaged,
    StoreErrorKind::Refused,
    StoreErrorKind::Sealed,
    StoreErrorKind::Unreachable,
    StoreErrorKind::Other,
];

impl StoreErrorKind {
    /// Returns the name of the kind, as used in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::NotADatabase => "not_a_database",
            Self::NewerSchema => "newer_schema",
            Self::OlderSchema => "older_schema",
            Self::Busy => "busy",
            Self::Full => "full",
            Self::Failing => "failing",
            Self::Damaged => "damaged",
            Self::Sealed => "sealed",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Other => "other",
        }
    }
}

/// The time after which a failure that has not recurred is over.
const RECENT: Duration = Duration::from_secs(5);

/// The numbers of store errors by kind, and the latest failure of each operation until it succeeds again.
#[derive(Debug, Default)]
pub(super) struct StoreErrorCounts {
    counts: [AtomicU64; STORE_ERROR_KINDS.len()],
    /// The latest failure of each operation since its last success.
    failures: Mutex<HashMap<&'static str, (Instant, StoreError)>>,
}

impl StoreErrorCounts {
    pub(super) fn add(&self, doing: &'static str, error: &StoreError) {
        self.counts[error.kind as usize].fetch_add(1, Relaxed);
        if !matches!(error.kind, StoreErrorKind::Refused | StoreErrorKind::Sealed | StoreErrorKind::Other) {
            self.failures.lock().insert(doing, (Instant::now(), error.clone()));
        }
    }

    /// Records a success of this operation.
    pub(super) fn end(&self, doing: &'static str) {
        let mut failures = self.failures.lock();
        if !failures.is_empty() {
            failures.remove(doing);
        }
    }

    pub(super) fn recent(&self) -> Option<StoreError> {
        let failures = self.failures.lock();
        let recent = failures.values().filter(|(at, _)| at.elapsed() < RECENT);
        // A full disk is worse than a lock, which may be released at any moment.
        recent
            .max_by_key(|(at, error)| (error.kind != StoreErrorKind::Busy, *at))
            .map(|(_, error)| error.clone())
    }

    pub(super) fn counts(&self) -> Vec<(StoreErrorKind, u64)> {
        STORE_ERROR_KINDS.iter().map(|kind| (*kind, self.counts[*kind as usize].load(Relaxed))).collect()
    }
}

/// The location of a store, as errors name it.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    File(PathBuf),
    /// A database on a server, as a URL without user and password.
    #[cfg(feature = "postgres")]
    Server(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.fmt(f),
        }
    }
}

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing} ({place}): {cause}{}", .help.as_ref().map_or_else(String::new, |help| format!("; {help}")))]
pub struct StoreError {
    /// The operation; it follows "cannot" in messages.
    pub doing: String,
    /// The file or address.
    pub place: String,
    /// The kind of error.
    pub kind: StoreErrorKind,
    /// The reason.
    pub cause: String,
    /// The hint that says how to fix it.
    pub help: Option<String>,
}

/// Clients receive the kind of the error, not the location of the store.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let full = format!("cannot {error}");
        let (public, code) = match error.kind {
            StoreErrorKind::Refused => return Self::Host(full),
            StoreErrorKind::Busy => ("another process holds its lock; try again in a moment", "store_busy"),
            StoreErrorKind::Full => ("its disk is full; the operator has to free some space", "store_full"),
            StoreErrorKind::Failing => {
                ("its disk has errors; the operator finds the reason in the log", "store_failing")
            }
            StoreErrorKind::Unreachable => {
                ("its database does not answer; try again in a moment", "store_unreachable")
            }
            StoreErrorKind::ReadOnly => {
                ("it is read-only; the operator finds the reason in the log", "store_read_only")
            }
            _ => ("the operator finds the reason in the log", "store_unavailable"),
        };
        let public = format!("cannot {}: the store failed: {public}", error.doing);
        Self::Unstored { message: Explanation::new(public, full), code }
    }
}

/// The result of a store method. Every method fails if the database does not respond, is locked, full or
/// damaged, or cannot store the value; further reasons are documented with the method.
pub type StoreResult<T> = Result<T, StoreError>;

/// The future of a store method.
pub type StoreFuture<'a, T> = BoxFuture<'a, StoreResult<T>>;

impl StoreError {
    pub(super) fn new(doing: &str, place: &Place, kind: StoreErrorKind, cause: impl Into<String>) -> Self {
        Self {
            doing: doing.to_owned(),
            place: place.to_string(),
            kind,
            cause: cause.into(),
            help: help(kind, place),
        }
    }

    /// Converts an error of the file system.
    pub(super) fn from_io(doing: &str, place: &Place, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{
            NotADirectory, PermissionDenied, ReadOnlyFilesystem, ResourceBusy, StorageFull,
        };
        let kind = match error.kind() {
            PermissionDenied | ReadOnlyFilesystem | NotADirectory => StoreErrorKind::ReadOnly,
            StorageFull => StoreErrorKind::Full,
            ResourceBusy => StoreErrorKind::Busy,
            _ => StoreErrorKind::Other,
        };
        Self::new(doing, place, kind, error.to_string())
    }

    /// Converts an error of a database by its result code.
    pub(super) fn from_sqlx(doing: &str, place: &Place, error: &sqlx::Error) -> Self {
        let kind = match error {
            #[cfg(feature = "postgres")]
            _ if matches!(place, Place::Server(_)) => of_server(error),
            sqlx::Error::Database(error) => {
                let code = error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(0);
                // The low byte is the primary result code; the other bytes extend it.
                match code & 0xff {
                    3 | 8 | 14 => StoreErrorKind::ReadOnly,
                    5 | 6 => StoreErrorKind::Busy,
                    10 => StoreErrorKind::Failing,
                    11 => StoreErrorKind::Damaged,
                    13 => StoreErrorKind::Full,
                    26 => StoreErrorKind::NotADatabase,
                    _ => StoreErrorKind::Other,
                }
            }
            sqlx::Error::PoolTimedOut => StoreErrorKind::Busy,
            sqlx::Error::Encode(_) => StoreErrorKind::Refused,
            sqlx::Error::Io(error) => return Self::from_io(doing, place, error),
            _ => StoreErrorKind::Other,
        };
        let cause = match error {
            sqlx::Error::Database(error) if error.code().as_deref() == Some("22021") => {
                "its database cannot store text with a NUL character".to_owned()
            }
            sqlx::Error::Database(error) => error.message().to_owned(),
            sqlx::Error::Decode(error) | sqlx::Error::Encode(error) => error.to_string(),
            error => error.to_string(),
        };
        Self::new(doing, place, kind, cause)
    }

    /// Converts an error of the migrations.
    pub(super) fn from_migration(doing: &str, place: &Place, error: &sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError as Error;
        match error {
            Error::VersionMissing(version) | Error::VersionMismatch(version) => Self::new(
                doing,
                place,
                StoreErrorKind::NewerSchema,
                format!(
                    "it was written by another version of valvehouse (this version does not know migration {version})"
                ),
            ),
            Error::Execute(error) | Error::ExecuteMigration(error, _) => Self::from_sqlx(doing, place, error),
            error => Self::new(doing, place, StoreErrorKind::Other, error.to_string()),
        }
    }
}

fn help(kind: StoreErrorKind, place: &Place) -> Option<String> {
    #[cfg(feature = "postgres")]
    if let Place::Server(_) = place {
        return help_for_server(kind);
    }
    #[allow(irrefutable_let_patterns, reason = "the only one without the feature `postgres`")]
    let Place::File(file) = place else { return None };
    let folder = file.parent().unwrap_or(file).display();
    Some(match kind {
        StoreErrorKind::ReadOnly => {
            format!("make {folder} a folder this user may write to, or set store.url to another file")
        }
        StoreErrorKind::NotADatabase => "move that file away, or set store.url to another file".to_owned(),
        StoreErrorKind::NewerSchema => {
            "run the newest version of valvehouse that has used it, or set store.url to another file"
                .to_owned()
        }
        StoreErrorKind::Busy => {
            "try again; if it fails again, look for a process that has locked the file".to_owned()
        }
        StoreErrorKind::Full => format!("free some space for {folder}"),
        StoreErrorKind::Failing => format!("check the free space, the quota and the disk of {folder}"),
        StoreErrorKind::Damaged => {
            format!(
                "restore it from a backup, or recover its readable rows: sqlite3 {} .recover",
                file.display()
            )
        }
        StoreErrorKind::OlderSchema
        | StoreErrorKind::Refused
        | StoreErrorKind::Sealed
        | StoreErrorKind::Unreachable
        | StoreErrorKind::Other => {
            return None;
        }
    })
}

/// Returns the kind of a server's error by its SQLSTATE.
#[cfg(feature = "postgres")]
fn of_server(error: &sqlx::Error) -> StoreErrorKind {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            match &*code {
                // Serialization failures, deadlocks, locks, and exhausted connections.
                "40001" | "40P01" | "55P03" | "53300" => StoreErrorKind::Busy,
                "53100" => StoreErrorKind::Full,
                "25006" | "42501" => StoreErrorKind::ReadOnly,
                // Text with a NUL character, numbers out of range, and ids that are too long for an index.
                "22021" | "22P05" | "22003" | "54000" => StoreErrorKind::Refused,
                // Connections that the server closed, such as that of a host that was suspended within a
                // transaction.
                "57P01" | "57P02" | "57P03" | "25P03" => StoreErrorKind::Unreachable,
                _ if code.starts_with("08") => StoreErrorKind::Unreachable,
                _ if code.starts_with("58") => StoreErrorKind::Failing,
                _ if code.starts_with("XX") => StoreErrorKind::Damaged,
                _ => StoreErrorKind::Other,
            }
        }
        sqlx::Error::Encode(_) => StoreErrorKind::Refused,
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::Protocol(_) => StoreErrorKind::Unreachable,
        _ => StoreErrorKind::Other,
    }
}

#[cfg(feature = "postgres")]
fn help_for_server(kind: StoreErrorKind) -> Option<String> {
    let help = match kind {
        StoreErrorKind::ReadOnly => {
            "name the primary in store.url, with a role that may create tables and write to them"
        }
        StoreErrorKind::NotADatabase | StoreErrorKind::NewerSchema => {
            "run the newest version of valvehouse that has used it, or set store.url to another database"
        }
        StoreErrorKind::OlderSchema => "run `valvehouse migrate`, or set store.migrate to \"auto\"",
        StoreErrorKind::Busy => {
            "try again; if it fails again, look in pg_stat_activity for a session that holds a lock"
        }
        StoreErrorKind::Full => "free some space on the disk of the database",
        StoreErrorKind::Failing => "read the log of the database",
        StoreErrorKind::Damaged => "restore the database from a backup",
        StoreErrorKind::Unreachable => "check that the database is running and can be reached from this host",
        StoreErrorKind::Refused | StoreErrorKind::Sealed | StoreErrorKind::Other => return None,
    };
    Some(help.to_owned())
}

/// An outage of the store: its database does not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// The reason.
    pub error: StoreError,
    /// The start of the outage, in milliseconds since 1970.
    pub since: i64,
    /// The local snapshot of this host, if there is one.
    pub snapshot: Option<SnapshotInfo>,
}

/// A snapshot of a store on a host's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The generation of the snapshot.
    pub generation: u64,
    /// The time at which it was written, in milliseconds since 1970.
    pub at: i64,
}
