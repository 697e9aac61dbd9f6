//! A store in an SQL database: its connections, and the execution of operations.

use crate::error::{Outage, Place, SnapshotInfo, StoreError, StoreErrorCounts, StoreErrorKind, StoreResult};
#[cfg(feature = "postgres")]
use crate::postgres;
use crate::seal::SealKey;
#[cfg(feature = "postgres")]
use crate::seal::random;
use crate::sealing::{self, KeyFrom};
use crate::snapshot::Content;
use crate::sql::{Lock, Pool, Query, Row, Session};
use crate::sqlite;
use crate::temporary::TemporaryFolder;
#[cfg(feature = "postgres")]
use crate::{
    clock::now,
    sealing::KeyText,
    snapshot::{Availability, Local},
};
use futures::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_grants::SecretSource;
#[cfg(feature = "postgres")]
use valvehouse_grants::{Secret, StoreAddress, StoreSettings};

/// The time after which a server that does not respond counts as unavailable; the network may report that
/// only after a quarter of an hour.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);
/// The same limit for checks for changes, which hosts make continuously.
const LOOK_DEADLINE: Duration = Duration::from_secs(2);

/// Durable state that hosts and commands share, in an SQL database.
///
/// Every method is one transaction. Methods that return a generation have raised it. Changes of a plugin's
/// settings name their author, and become versions in its [history](Store::history).
pub struct Store {
    pub(crate) place: Place,
    /// The pool whose commits wait for the disk.
    pub(crate) durable: Pool,
    /// The pool for reads, and for writes that do not wait for the disk.
    pub(crate) swift: Pool,
    /// The key that seals values.
    pub(crate) key: SealKey,
    /// The queue of writers, with the time at which one of them last failed to get the lock.
    queue: tokio::sync::Mutex<Option<Instant>>,
    pub(super) error_counts: StoreErrorCounts,
    /// The folder of a temporary store.
    #[expect(dead_code, reason = "it is removed when the store is dropped")]
    temporary: Option<TemporaryFolder>,
    /// The listener for new generations.
    #[cfg(feature = "postgres")]
    pub(super) listener: Option<crate::postgres::Listener>,
    /// The availability of the server.
    #[cfg(feature = "postgres")]
    availability: Option<Arc<Availability>>,
}

impl Store {
    /// Opens an SQLite file. A missing file and its folder are created for this user only. Values are sealed
    /// with the key in the file of the same name with the extension `.key`, which is created with it.
    ///
    /// # Errors
    /// Returns an error if the file is not a store, cannot be written, or its key is missing.
    pub async fn sqlite(file: &Path) -> StoreResult<Self> {
        Self::sqlite_with(file, None).await
    }

    /// Opens an SQLite file with a configured key.
    ///
    /// # Errors
    /// Returns an error if the file is not a store, cannot be written, or is sealed with another key.
    pub async fn sqlite_with(file: &Path, key: Option<&SecretSource>) -> StoreResult<Self> {
        let (durable, swift) = sqlite::open::open(file).await?;
        let place = Place::File(file.to_owned());
        let (key, _) = sealing::key(&place, KeyFrom::of_file(file, key), &durable).await?;
        let store = Self::of_parts(place, durable, swift, key);
        store.complete_file().await;
        Ok(store)
    }

    /// Opens a Postgres database and creates missing tables. Hosts that share it need the same key.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached or rejects the role, or if the key is missing or
    /// wrong.
    #[cfg(feature = "postgres")]
    pub async fn postgres(url: &str, key: Option<&SecretSource>) -> StoreResult<Self> {
        let settings = StoreSettings::at(StoreAddress::Postgres(Secret::new(url)), key.cloned());
        Self::shared(&settings, None).await
    }

    /// Opens a Postgres database. If it is unavailable and the file contains a snapshot of it, the store uses
    /// that until the database is back; changes are rejected meanwhile.
    ///
    /// # Errors
    /// Returns an error if the server rejects the role, if the key is missing or wrong, or if the server is
    /// unavailable and the snapshot is missing or unreadable.
    #[cfg(feature = "postgres")]
    pub(crate) async fn shared(settings: &StoreSettings, snapshot: Option<&Path>) -> StoreResult<Self> {
        let StoreAddress::Postgres(url) = &settings.address else {
            unreachable!("the caller looked at the address")
        };
        let server = postgres::Server::new(url, settings)?;
        let (pool, database) = (server.pool(), server.place.to_string());
        let from = settings.key.as_ref().map(KeyFrom::Settings);
        let opened = async {
            server.reach().await?;
            server.prepare(&pool).await?;
            let from = from.ok_or_else(|| postgres::without_key(&server.place))?;
            sealing::key(&server.place, from, &pool).await
        };
        let (key, local, error) = match opened.await {
            Ok((key, proof)) => {
                let local =
                    snapshot.map(|file| Local::of_database(file, &database, proof, &key)).transpose()?;
                (key, local, None)
            }
            Err(error) if matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::Busy) => {
                let (Some(file), Some(from)) = (snapshot, from) else { return Err(error) };
                let text = KeyText::read(&server.place, from, true)?;
                let Some((local, key)) = Local::of_snapshot(file, &database, &text)? else {
                    let without = format!("there is no snapshot to start from ({})", file.display());
                    let help = error.help.map_or(without.clone(), |help| format!("{help}; {without}"));
                    return Err(StoreError { help: Some(help), ..error });
                };
                (key, Some(local), Some(error))
            }
            Err(error) => return Err(error),
        };
        let (place, listener) = (server.place.clone(), server.listener(&pool));
        let availability = Availability::new(server, pool.clone(), local, error.clone());
        match (error, availability.snapshot()) {
            (Some(error), Some(seen)) => tracing::warn!(
                "starting without the store, from the snapshot of its generation {} that is {} s old: {error}",
                seen.generation,
                now().saturating_sub(seen.at) / 1000
            ),
            _ => availability.replay().await?,
        }
        let store = Self::of_parts(place, pool.clone(), pool, key);
        Ok(Self { listener, availability: Some(availability), ..store })
    }

    fn of_parts(place: Place, durable: Pool, swift: Pool, key: SealKey) -> Self {
        crate::conversation::opened();
        let (queue, error_counts) = (tokio::sync::Mutex::default(), StoreErrorCounts::default());
        Self {
            place,
            durable,
            swift,
            key,
            queue,
            error_counts,
            temporary: None,
            #[cfg(feature = "postgres")]
            listener: None,
            #[cfg(feature = "postgres")]
            availability: None,
        }
    }

    /// Sets the folder of the store's file, which is removed when the store is dropped.
    pub(crate) fn in_temporary(self, folder: TemporaryFolder) -> Self {
        Self { temporary: Some(folder), ..self }
    }

    /// Returns the availability of the database; `None` for a file.
    #[cfg(feature = "postgres")]
    pub(super) fn availability(&self) -> Option<&Availability> {
        self.availability.as_deref()
    }

    /// Returns the snapshot of a store that has never reached its database.
    fn cold(&self) -> Option<Arc<Content>> {
        #[cfg(feature = "postgres")]
        return self.availability().and_then(Availability::local).and_then(Local::cold);
        #[cfg(not(feature = "postgres"))]
        None
    }

    /// Returns the error of an operation during an outage; `None` at other times.
    fn away(&self, doing: &'static str) -> Option<StoreError> {
        #[cfg(feature = "postgres")]
        let error = self.availability()?.error();
        #[cfg(not(feature = "postgres"))]
        let error: Option<StoreError> = None;
        error.map(|error| StoreError { doing: doing.to_owned(), ..error })
    }

    /// Commits a change that does not raise the generation, and returns this value.
    pub(super) async fn commit_quietly<T>(&self, transaction: Session, value: T) -> sqlx::Result<T> {
        transaction.commit().await?;
        #[cfg(feature = "postgres")]
        if let Some(local) = self.availability().and_then(Availability::local) {
            local.settings_changed();
        }
        Ok(value)
    }

    /// Executes a read; a store that has never reached its database reads the snapshot instead.
    pub(super) async fn read<T>(
        &self,
        doing: &'static str,
        of_snapshot: impl FnOnce(&Content) -> T,
        work: impl Future<Output = sqlx::Result<T>> + Send,
    ) -> StoreResult<T> {
        if let Some(content) = self.cold() {
            return Ok(of_snapshot(&content));
        }
        self.work(doing, work).await
    }

    /// Executes an operation. `doing` describes it in errors. It is boxed, so that the futures of callers stay
    /// small.
    pub(super) async fn work<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = sqlx::Result<T>> + Send,
    ) -> StoreResult<T> {
        self.watched(doing, ANSWER_DEADLINE, Box::pin(work)).await
    }

    /// Reads rows with one statement.
    pub(super) async fn fetch<T>(
        &self,
        doing: &'static str,
        query: Query<'_>,
        read: impl Fn(&Row) -> sqlx::Result<T> + Send,
    ) -> StoreResult<Vec<T>> {
        self.work(doing, async {
            query.fetch_all(&mut self.swift.session().await?).await?.iter().map(read).collect()
        })
        .await
    }

    /// Executes one statement without waiting for the disk. Returns the number of changed rows.
    pub(super) async fn execute(&self, doing: &'static str, query: Query<'_>) -> StoreResult<u64> {
        self.work(doing, async { query.execute(&mut self.swift.session().await?).await }).await
    }

    /// Executes one statement, which is durable when this returns. Returns the number of changed rows.
    pub(super) async fn execute_durably(&self, doing: &'static str, query: Query<'_>) -> StoreResult<u64> {
        self.work(doing, async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let changed = query.execute(&mut transaction).await?;
            transaction.commit_with(changed).await
        })
        .await
    }

    /// Like [`Self::read`], for checks for changes, which have a shorter time limit: hosts make them
    /// continuously, and detect an outage by them.
    pub(super) async fn look<T>(
        &self,
        doing: &'static str,
        of_snapshot: impl FnOnce(&Content) -> T,
        look: impl Future<Output = sqlx::Result<T>> + Send,
    ) -> StoreResult<T> {
        if let Some(content) = self.cold() {
            return Ok(of_snapshot(&content));
        }
        self.watched(doing, LOOK_DEADLINE, Box::pin(look)).await
    }

    /// Waits for a server until a deadline; then replaces the connections.
    async fn within<T>(&self, deadline: Duration, work: BoxFuture<'_, sqlx::Result<T>>) -> sqlx::Result<T> {
        if !self.is_shared() {
            return work.await;
        }
        tokio::time::timeout(deadline, work).await.unwrap_or_else(|_late| {
            self.durable.renew();
            let late = format!("no answer within {} s", deadline.as_secs());
            Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, late)))
        })
    }

    async fn watched<T>(
        &self,
        doing: &'static str,
        deadline: Duration,
        work: BoxFuture<'_, sqlx::Result<T>>,
    ) -> StoreResult<T> {
        let done = match self.away(doing) {
            Some(error) => Err(error),
            None => self.unless_lost(doing, self.within(deadline, work)).await,
        };
        match &done {
            Ok(_) => self.error_counts.end(doing),
            Err(error) => {
                #[cfg(feature = "postgres")]
                if error.kind == StoreErrorKind::Unreachable
                    && let Some(availability) = self.availability()
                {
                    availability.recheck();
                }
                self.error_counts.add(doing, error);
            }
        }
        done
    }

    /// Executes an operation, and ends it when an outage is detected.
    async fn unless_lost<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = sqlx::Result<T>>,
    ) -> StoreResult<T> {
        let work = async { work.await.map_err(|error| StoreError::from_sqlx(doing, &self.place, &error)) };
        #[cfg(feature = "postgres")]
        if let Some(availability) = self.availability() {
            return tokio::select! {
                biased;
                done = work => done,
                error = availability.lost() => Err(StoreError { doing: doing.to_owned(), ..error }),
            };
        }
        work.await
    }

    /// Starts a transaction whose commit waits for the disk.
    pub(super) async fn begin(&self, lock: Lock<'_>) -> sqlx::Result<Session> {
        self.queued(|| self.durable.begin(lock)).await
    }

    /// Executes an operation that needs the lock of writers. If a writer finds the lock held by another
    /// process, those queued behind it fail as well, so that none of them waits twice as long.
    pub(super) async fn queued<T, F: Future<Output = sqlx::Result<T>>>(
        &self,
        work: impl Fn() -> F,
    ) -> sqlx::Result<T> {
        let since = Instant::now();
        #[cfg(feature = "postgres")]
        if let Place::Server(_) = &self.place {
            // A server allows concurrent writers, and reports which of them must retry.
            loop {
                let done = work().await;
                let again = done.as_ref().err().is_some_and(|error| self.is_busy(error));
                if !again || since.elapsed() > sqlite::open::CONTENDED {
                    return done;
                }
                // Conflicting writers pause for different times.
                let [pause] = random::<1>();
                tokio::time::sleep(Duration::from_millis(5 + u64::from(pause % 32))).await;
            }
        }
        let mut busy_at = self.queue.lock().await;
        if busy_at.is_some_and(|at| at >= since) {
            return Err(sqlx::Error::PoolTimedOut);
        }
        loop {
            let done = work().await;
            if done.as_ref().err().is_none_or(|error| !self.is_busy(error)) {
                return done;
            }
            if !self.is_contended() || since.elapsed() > sqlite::open::CONTENDED {
                *busy_at = Some(Instant::now());
                return done;
            }
        }
    }

    pub(super) fn is_busy(&self, error: &sqlx::Error) -> bool {
        StoreError::from_sqlx("", &self.place, error).kind == StoreErrorKind::Busy
    }

    /// Returns `true` if other processes use the lock in turn, rather than one of them holding it.
    pub(super) fn is_contended(&self) -> bool {
        match &self.place {
            Place::File(file) => sqlite::open::is_contended(file),
            #[cfg(feature = "postgres")]
            Place::Server(_) => true,
        }
    }
}

/// The state of the store.
impl Store {
    /// Returns `true` if hosts on other computers may share it. A failure of the store then affects all of
    /// them, and is not a reason to route requests elsewhere.
    pub fn is_shared(&self) -> bool {
        match self.place {
            Place::File(_) => false,
            #[cfg(feature = "postgres")]
            Place::Server(_) => true,
        }
    }

    /// Returns `true` if the store is shared, but a pooler in front of it does not forward notifications of a
    /// new generation.
    pub fn is_polled(&self) -> bool {
        #[cfg(feature = "postgres")]
        return self.is_shared() && self.listener.is_none();
        #[cfg(not(feature = "postgres"))]
        false
    }

    /// Waits until the store notifies of a possibly new generation; forever if it does not send
    /// notifications. They may be lost with a connection, so [`Store::generation`] must be polled as well.
    pub async fn changed(&self) {
        #[cfg(feature = "postgres")]
        if let Some(listener) = &self.listener {
            return listener.changed().await;
        }
        std::future::pending().await
    }

    /// Returns the number of errors of each kind since the store was opened.
    pub fn error_counts(&self) -> Vec<(StoreErrorKind, u64)> {
        self.error_counts.counts()
    }

    /// Returns the latest failure that has not been followed by a success, such as a full disk or a held
    /// lock.
    pub fn failing(&self) -> Option<StoreError> {
        self.error_counts.recent()
    }

    /// Returns the current outage of the store's database.
    pub fn outage(&self) -> Option<Outage> {
        #[cfg(feature = "postgres")]
        return self.availability()?.outage();
        #[cfg(not(feature = "postgres"))]
        None
    }

    /// Returns the snapshot on this host's disk, from which it starts during an outage.
    pub fn snapshot(&self) -> Option<SnapshotInfo> {
        #[cfg(feature = "postgres")]
        return self.availability()?.snapshot();
        #[cfg(not(feature = "postgres"))]
        None
    }

    /// Takes and releases the lock of writers.
    ///
    /// # Errors
    /// Returns an error if another process holds the lock for longer than a writer waits.
    pub async fn probe(&self) -> StoreResult<()> {
        self.work("lock the store", async {
            let since = Instant::now();
            loop {
                let (begun, lag) = with_lag(self.swift.begin(Lock::Nothing)).await;
                match begun {
                    Ok(transaction) => return transaction.commit().await,
                    Err(error) if !self.is_busy(&error) => return Err(error),
                    Err(_) if self.is_contended() => return Ok(()),
                    // On an overloaded computer, the holder of the lock may not be running either.
                    Err(_) if lag > STARVED && since.elapsed() < sqlite::open::CONTENDED => {}
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// Writes the write-ahead log of a file to the file, so that the file is complete without it.
    pub async fn complete_file(&self) {
        if let Err(error) = sqlite::open::checkpoint(&self.swift).await {
            tracing::debug!("cannot write the log of the store to its file: {error}");
        }
    }

    /// Finishes the operations in progress, and closes files and connections.
    pub async fn close(&self) {
        self.complete_file().await;
        self.swift.close().await;
        self.durable.close().await;
    }
}

/// The delay of a timer from which on the computer counts as overloaded, so that the time of a held lock says
/// nothing.
const STARVED: Duration = Duration::from_millis(60);

/// Waits for `work`. Also returns the maximum delay of a timer meanwhile.
async fn with_lag<T>(work: impl Future<Output = T>) -> (T, Duration) {
    const PERIOD: Duration = Duration::from_millis(20);
    let (mut work, mut lag) = (std::pin::pin!(work), Duration::ZERO);
    loop {
        let since = Instant::now();
        tokio::select! {
            done = &mut work => return (done, lag.max(since.elapsed().saturating_sub(PERIOD))),
            () = tokio::time::sleep(PERIOD) => lag = lag.max(since.elapsed().saturating_sub(PERIOD)),
        }
    }
}
