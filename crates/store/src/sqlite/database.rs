//! The file of a store: its connections, and one piece of work on them.

use super::transaction::{Transaction, begin};
use super::{open, sealing};
use crate::error::{Answer, StoreError, Trouble, Troubles};
use crate::seal::SealKey;
use sqlx::SqlitePool;
use std::path::{Path, PathBuf};
use std::time::Instant;
use valvehouse_config::SecretSource;

/// A store in one file.
pub struct Sqlite {
    file: PathBuf,
    /// One connection whose commits wait for the disk.
    pub(super) durable: SqlitePool,
    /// Readers, and writers that do not wait for the disk.
    pub(super) swift: SqlitePool,
    /// What people set is sealed with it.
    pub(super) key: SealKey,
    /// Writers in their order, and when one of them last failed to get the lock.
    queue: tokio::sync::Mutex<Option<Instant>>,
    pub(super) troubles: Troubles,
}

impl Sqlite {
    /// Opens the file; creates it and its folder, for this user only, where they are missing. What people
    /// set is sealed with the key in the file of the same name that ends in `.key`, which is made with it.
    pub async fn open(file: &Path) -> Result<Self, StoreError> {
        Self::open_with(file, None).await
    }

    /// The same with a key from elsewhere.
    pub async fn open_with(file: &Path, key: Option<&SecretSource>) -> Result<Self, StoreError> {
        crate::conversation::opened();
        let (durable, swift) = open::open(file).await?;
        let key = sealing::key(file, key, &durable).await?;
        Ok(Self {
            file: file.to_owned(),
            durable,
            swift,
            key,
            queue: tokio::sync::Mutex::default(),
            troubles: Troubles::default(),
        })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Runs one piece of work; an error says what it was for.
    pub(super) fn work<'a, T: 'a>(
        &'a self,
        doing: &'static str,
        work: impl Future<Output = Result<T, sqlx::Error>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            match work.await {
                Ok(value) => {
                    self.troubles.end(doing);
                    Ok(value)
                }
                Err(error) => {
                    let error = StoreError::from_sqlx(doing, &self.file, &error);
                    self.troubles.add(doing, &error);
                    Err(error)
                }
            }
        })
    }

    /// Begins a transaction whose commit waits for the disk.
    pub(super) async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        self.queued(|| begin(&self.durable)).await
    }

    /// Does what needs the lock of writers. Whoever queued while another one found the lock held by another
    /// process fails as well: nobody waits twice as long.
    pub(super) async fn queued<T, F: Future<Output = Result<T, sqlx::Error>>>(
        &self,
        work: impl Fn() -> F,
    ) -> Result<T, sqlx::Error> {
        let since = Instant::now();
        let mut busy_at = self.queue.lock().await;
        if busy_at.is_some_and(|at| at >= since) {
            return Err(sqlx::Error::PoolTimedOut);
        }
        loop {
            let done = work().await;
            if done.as_ref().err().is_none_or(|error| !self.is_busy(error)) {
                return done;
            }
            if !self.is_contended() || since.elapsed() > open::CONTENDED {
                *busy_at = Some(Instant::now());
                return done;
            }
        }
    }

    pub(super) fn is_busy(&self, error: &sqlx::Error) -> bool {
        StoreError::from_sqlx("", &self.file, error).trouble == Trouble::Busy
    }

    /// Returns `true` if the write-ahead log was written within the lock timeout: other processes take turns at the
    /// lock, rather than one of them holding it.
    pub(super) fn is_contended(&self) -> bool {
        let mut log = self.file.clone().into_os_string();
        log.push("-wal");
        let written = std::fs::metadata(log).and_then(|metadata| metadata.modified());
        written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < open::LOCK_TIMEOUT))
    }
}
