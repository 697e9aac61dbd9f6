//! Errors of the store: the operation, the place, the reason, and the fix.

use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_core::error::{Error, Explanation};

/// The kind of a store's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It may not be written.
    ReadOnly,
    /// There is something else in its place.
    NotADatabase,
    /// A newer version of us has been here.
    NewerSchema,
    /// Its tables are of an earlier version, and it is not for hosts to change them.
    OlderSchema,
    /// Others kept it busy for too long; trying again makes sense.
    Busy,
    /// The disk is full.
    Full,
    /// The disk does not read or write: an error of the device, a quota, a limit of file sizes.
    Failing,
    /// Its content is broken.
    Damaged,
    /// The value cannot be stored, or the request cannot be executed, in any store.
    Refused,
    /// The key that opens it is missing or another one.
    Sealed,
    /// The server that keeps it does not answer.
    Unreachable,
    /// Anything else.
    Other,
}

const TROUBLES: [Trouble; 12] = [
    Trouble::ReadOnly,
    Trouble::NotADatabase,
    Trouble::NewerSchema,
    Trouble::OlderSchema,
    Trouble::Busy,
    Trouble::Full,
    Trouble::Failing,
    Trouble::Damaged,
    Trouble::Refused,
    Trouble::Sealed,
    Trouble::Unreachable,
    Trouble::Other,
];

impl Trouble {
    /// One word for metrics.
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

/// A failure that has not come again for this long is over.
const RECENT: Duration = Duration::from_secs(5);

/// The numbers of store errors by kind, and the latest failure of each kind of work until it succeeds again.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    counts: [AtomicU64; TROUBLES.len()],
    /// By kind of work, the latest failure since its latest success.
    failures: Mutex<HashMap<&'static str, (Instant, StoreError)>>,
}

impl Troubles {
    pub(super) fn add(&self, doing: &'static str, error: &StoreError) {
        self.counts[error.trouble as usize].fetch_add(1, Relaxed);
        if !matches!(error.trouble, Trouble::Refused | Trouble::Sealed | Trouble::Other) {
            self.failures.lock().insert(doing, (Instant::now(), error.clone()));
        }
    }

    /// Work of this kind succeeded.
    pub(super) fn end(&self, doing: &'static str) {
        let mut failures = self.failures.lock();
        if !failures.is_empty() {
            failures.remove(doing);
        }
    }

    pub(super) fn recent(&self) -> Option<StoreError> {
        let failures = self.failures.lock();
        let recent = failures.values().filter(|(at, _)| at.elapsed() < RECENT);
        // A lock may be free again at any moment; a full disk is worse.
        recent.max_by_key(|(at, error)| (error.trouble != Trouble::Busy, *at)).map(|(_, error)| error.clone())
    }

    pub(super) fn counts(&self) -> Vec<(Trouble, u64)> {
        TROUBLES.iter().map(|trouble| (*trouble, self.counts[*trouble as usize].load(Relaxed))).collect()
    }
}

/// The place of a store, as errors name it.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    File(PathBuf),
    /// A database of a server, named without its password.
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
#[error("{doing} ({place}): {cause}{}", .mend.as_ref().map_or_else(String::new, |mend| format!("; {mend}")))]
pub struct StoreError {
    /// The operation; fits after "failed to".
    pub doing: String,
    /// The file or address.
    pub place: String,
    /// The kind of error.
    pub trouble: Trouble,
    /// The reason.
    pub cause: String,
    /// The hint that says how to fix it.
    pub mend: Option<String>,
}

/// Clients read what is wrong with the store, not where it lies.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let full = format!("cannot {error}");
        let (public, code) = match error.trouble {
            Trouble::Refused => return Self::Host(full),
            Trouble::Busy => ("another process holds its lock; try again in a moment", "store_busy"),
            Trouble::Full => ("its disk is full; the operator has to free some space", "store_full"),
            Trouble::Failing => {
                ("its disk has errors; the operator finds the reason in the log", "store_failing")
            }
            Trouble::Unreachable => {
                ("its database does not answer; try again in a moment", "store_unreachable")
            }
            Trouble::ReadOnly => {
                ("it is read-only; the operator finds the reason in the log", "store_read_only")
            }
            _ => ("the operator finds the reason in the log", "store_unavailable"),
        };
        let public = format!("cannot {}: the store failed: {public}", error.doing);
        Self::Unstored { message: Explanation::new(public, full), code }
    }
}

/// The answer of a store's method, later.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

impl StoreError {
    pub(super) fn new(doing: &str, place: &Place, trouble: Trouble, cause: impl Into<String>) -> Self {
        Self {
            doing: doing.to_owned(),
            place: place.to_string(),
            trouble,
            cause: cause.into(),
            mend: mend(trouble, place),
        }
    }

    /// From the file system.
    pub(super) fn from_io(doing: &str, place: &Place, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem, StorageFull};
        let trouble = match error.kind() {
            PermissionDenied | ReadOnlyFilesystem | NotADirectory => Trouble::ReadOnly,
            StorageFull => Trouble::Full,
            _ => Trouble::Other,
        };
        Self::new(doing, place, trouble, error.to_string())
    }

    /// From a database, by its result codes.
    pub(super) fn from_sqlx(doing: &str, place: &Place, error: &sqlx::Error) -> Self {
        let trouble = match error {
            #[cfg(feature = "postgres")]
            _ if matches!(place, Place::Server(_)) => of_server(error),
            sqlx::Error::Database(error) => {
                let code = error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(0);
                // The low byte is the code, the rest says more of it.
                match code & 0xff {
                    3 | 8 | 14 => Trouble::ReadOnly,
                    5 | 6 => Trouble::Busy,
                    10 => Trouble::Failing,
                    11 => Trouble::Damaged,
                    13 => Trouble::Full,
                    26 => Trouble::NotADatabase,
                    _ => Trouble::Other,
                }
            }
            sqlx::Error::PoolTimedOut => Trouble::Busy,
            sqlx::Error::Encode(_) => Trouble::Refused,
            sqlx::Error::Io(error) => return Self::from_io(doing, place, error),
            _ => Trouble::Other,
        };
        let cause = match error {
            sqlx::Error::Database(error) if error.code().as_deref() == Some("22021") => {
                "its database cannot store text with a NUL character".to_owned()
            }
            sqlx::Error::Database(error) => error.message().to_owned(),
            sqlx::Error::Decode(error) | sqlx::Error::Encode(error) => error.to_string(),
            error => error.to_string(),
        };
        Self::new(doing, place, trouble, cause)
    }

    /// From the migrations.
    pub(super) fn from_migration(doing: &str, place: &Place, error: &sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError as Error;
        match error {
            Error::VersionMissing(version) | Error::VersionMismatch(version) => Self::new(
                doing,
                place,
                Trouble::NewerSchema,
                format!(
                    "it was written by another version of valvehouse (this version does not know step {version})"
                ),
            ),
            Error::Execute(error) | Error::ExecuteMigration(error, _) => Self::from_sqlx(doing, place, error),
            error => Self::new(doing, place, Trouble::Other, error.to_string()),
        }
    }
}

fn mend(trouble: Trouble, place: &Place) -> Option<String> {
    #[cfg(feature = "postgres")]
    if let Place::Server(_) = place {
        return mend_server(trouble);
    }
    #[allow(irrefutable_let_patterns, reason = "the only one without the feature `postgres`")]
    let Place::File(file) = place else { return None };
    let folder = file.parent().unwrap_or(file).display();
    Some(match trouble {
        Trouble::ReadOnly => {
            format!("make {folder} a folder this user may write to, or set store.url to another file")
        }
        Trouble::NotADatabase => "move that file away, or set store.url to another file".to_owned(),
        Trouble::NewerSchema => {
            "run the newest version of valvehouse that has used it, or set store.url to another file"
                .to_owned()
        }
        Trouble::Busy => {
            "try again; if it fails again, look for a process that has locked the file".to_owned()
        }
        Trouble::Full => format!("free some space for {folder}"),
        Trouble::Failing => format!("check the free space, the quota and the disk of {folder}"),
        Trouble::Damaged => {
            format!(
                "restore it from a backup, or recover its readable rows: sqlite3 {} .recover",
                file.display()
            )
        }
        Trouble::OlderSchema | Trouble::Refused | Trouble::Sealed | Trouble::Unreachable | Trouble::Other => {
            return None;
        }
    })
}

/// Sorts the errors of a server by their SQLSTATE.
#[cfg(feature = "postgres")]
fn of_server(error: &sqlx::Error) -> Trouble {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            match &*code {
                // Serialization failures, deadlocks, locks; connections that are used up.
                "40001" | "40P01" | "55P03" | "53300" => Trouble::Busy,
                "53100" => Trouble::Full,
                "25006" | "42501" => Trouble::ReadOnly,
                // Text with a NUL character, numbers out of range, ids that are too long for an index.
                "22021" | "22P05" | "22003" | "54000" => Trouble::Refused,
                // Connections that the server ended, one of a host that stood still within a transaction among them.
                "57P01" | "57P02" | "57P03" | "25P03" => Trouble::Unreachable,
                _ if code.starts_with("08") => Trouble::Unreachable,
                _ if code.starts_with("58") => Trouble::Failing,
                _ if code.starts_with("XX") => Trouble::Damaged,
                _ => Trouble::Other,
            }
        }
        sqlx::Error::Encode(_) => Trouble::Refused,
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::Protocol(_) => Trouble::Unreachable,
        _ => Trouble::Other,
    }
}

#[cfg(feature = "postgres")]
fn mend_server(trouble: Trouble) -> Option<String> {
    let mend = match trouble {
        Trouble::ReadOnly => {
            "name the primary in store.url, with a role that may create tables and write to them"
        }
        Trouble::NotADatabase | Trouble::NewerSchema => {
            "run the newest version of valvehouse that has used it, or set store.url to another database"
        }
        Trouble::OlderSchema => "run `valvehouse migrate`, or set store.migrate to \"auto\"",
        Trouble::Busy => {
            "try again; if it fails again, look in pg_stat_activity for a session that holds a lock"
        }
        Trouble::Full => "free some space on the disk of the database",
        Trouble::Failing => "read the log of the database",
        Trouble::Damaged => "restore the database from a backup",
        Trouble::Unreachable => "check that the database is running and can be reached from this host",
        Trouble::Refused | Trouble::Sealed | Trouble::Other => return None,
    };
    Some(mend.to_owned())
}
