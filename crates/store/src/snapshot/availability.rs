//! The availability of a shared store's database. A failed connection starts a check on a separate
//! connection. During an outage, operations fail immediately.

use super::journal::Journal;
use super::local::Local;
use crate::clock::now;
use crate::error::{Outage, SnapshotInfo, StoreError, StoreErrorKind};
use crate::postgres::Server;
use crate::record::KvChange;
use crate::rows::kv;
use crate::seal::random;
use crate::sealing;
use crate::sql::{Lock, Pool};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

const CHECKING: &str = "reach the database again";
/// The initial and the maximum delay between two attempts to reach the database.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The database of a shared store, its availability, and the local files for an outage.
pub(crate) struct Availability {
    server: Server,
    pool: Pool,
    local: Option<Local>,
    outage: watch::Sender<Option<(StoreError, i64)>>,
    checking: tokio::sync::Mutex<()>,
    recheck: Arc<Notify>,
}

impl Availability {
    /// Creates the state of a database, with the outage at the start if there is one.
    pub(crate) fn new(
        server: Server,
        pool: Pool,
        local: Option<Local>,
        outage: Option<StoreError>,
    ) -> Arc<Self> {
        let this = Arc::new(Self {
            server,
            pool,
            local,
            outage: watch::Sender::new(outage.map(|error| (error, now()))),
            checking: tokio::sync::Mutex::default(),
            recheck: Arc::default(),
        });
        if this.error().is_some() {
            this.recheck.notify_one();
        }
        tokio::spawn(follow(Arc::downgrade(&this), this.recheck.clone()));
        this
    }

    pub(crate) fn local(&self) -> Option<&Local> {
        self.local.as_ref()
    }

    /// Returns the reason for the outage; `None` while the database is reachable.
    pub(crate) fn error(&self) -> Option<StoreError> {
        self.outage.borrow().as_ref().map(|(error, _)| error.clone())
    }

    pub(crate) fn outage(&self) -> Option<Outage> {
        let (error, since) = self.outage.borrow().clone()?;
        Some(Outage { error, since, snapshot: self.snapshot() })
    }

    pub(crate) fn snapshot(&self) -> Option<SnapshotInfo> {
        self.local.as_ref()?.seen()
    }

    /// Starts a check of the database after a connection failed.
    pub(crate) fn recheck(&self) {
        self.recheck.notify_one();
    }

    /// Waits until the database is unavailable. A long wait starts a check, because a dead connection cannot
    /// be told from a busy server.
    pub(crate) async fn lost(&self) -> StoreError {
        let mut outage = self.outage.subscribe();
        loop {
            tokio::select! {
                away = outage.wait_for(Option::is_some) => {
                    if let Ok(away) = away && let Some((error, _)) = &*away {
                        return error.clone();
                    }
                }
                () = tokio::time::sleep(self.server.connect_timeout) => self.recheck(),
            }
        }
    }

    /// Returns `true` during an outage.
    pub(crate) async fn is_away(&self) -> bool {
        let _one = self.checking.lock().await;
        if self.outage.borrow().is_some() {
            return true;
        }
        match self.server.probe().await {
            Err(error) if error.kind == StoreErrorKind::Unreachable => {
                tracing::warn!("the store is unavailable, continuing without it: {error}");
                self.pool.renew();
                self.outage.send_replace(Some((error, now())));
                true
            }
            _ => false,
        }
    }

    /// Appends changes of kv entries to the local journal during an outage. Returns `false` if the
    /// database is available.
    pub(crate) async fn append(&self, changes: &[KvChange]) -> Result<bool, StoreError> {
        let Some(local) = &self.local else { return Ok(false) };
        let mut journal = local.journal().lock().await;
        if self.outage.borrow().is_none() {
            return Ok(false);
        }
        journal.append(changes).map(|()| true)
    }

    /// Ends the outage if the database is reachable.
    async fn recover(&self) -> Result<(), StoreError> {
        self.server.probe().await?;
        if let Some(local) = &self.local {
            let is_cold = local.cold().is_some();
            if is_cold {
                self.check_proof(local).await?;
                self.server.prepare(&self.pool).await?;
            }
            let mut journal = local.journal().lock().await;
            self.write_pending(&mut journal).await?;
            local.thaw();
            self.outage.send_replace(None);
        } else {
            self.outage.send_replace(None);
        }
        tracing::info!("the store is available again");
        Ok(())
    }

    /// Writes the changes in the journal to the database.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub(crate) async fn replay(&self) -> Result<(), StoreError> {
        let Some(local) = &self.local else { return Ok(()) };
        self.write_pending(&mut *local.journal().lock().await).await
    }

    async fn write_pending(&self, journal: &mut Journal) -> Result<(), StoreError> {
        let pending = journal.pending();
        let written = async {
            let mut transaction = self.pool.begin(Lock::Kv).await?;
            kv::write_merged(&mut transaction, &pending).await?;
            transaction.commit().await
        };
        if pending.is_empty() {
            return Ok(());
        }
        match written.await.map_err(|error| StoreError::from_sqlx(CHECKING, &self.server.place, &error)) {
            Ok(()) => {
                tracing::info!(
                    "{} kv entries that changed during the outage were written to the store",
                    pending.len()
                );
                journal.clear();
            }
            Err(error) if error.kind == StoreErrorKind::Refused => {
                tracing::error!(
                    "cannot write the kv entries that changed during the outage; they are set aside: {error}"
                );
                journal.set_aside();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Checks that the reachable database is that of the snapshot.
    async fn check_proof(&self, local: &Local) -> Result<(), StoreError> {
        let proof = sealing::proof(&self.pool).await;
        let proof = proof.map_err(|error| StoreError::from_sqlx(CHECKING, &self.server.place, &error))?;
        if proof.is_some_and(|proof| local.is_of(&proof)) {
            return Ok(());
        }
        let cause = "it is not the database of the snapshot that this host started from";
        let help = format!(
            "correct store.url and restart; if it is correct, remove {} and restart",
            local.file().display()
        );
        let error = StoreError::new(CHECKING, &self.server.place, StoreErrorKind::NotADatabase, cause);
        Err(StoreError { help: Some(help), ..error })
    }

    /// Tries to end the outage. Returns `true` on success.
    async fn try_recover(&self) -> bool {
        let Err(error) = self.recover().await else { return true };
        self.outage.send_modify(|outage| {
            if let Some((known, _)) = outage {
                if error.kind != known.kind {
                    tracing::warn!("the store is still unavailable: {error}");
                }
                *known = error;
            }
        });
        false
    }
}

impl Drop for Availability {
    fn drop(&mut self) {
        self.recheck.notify_one();
    }
}

/// Checks the database after every reported failure and, during an outage, until it is reachable.
async fn follow(availability: std::sync::Weak<Availability>, recheck: Arc<Notify>) {
    loop {
        recheck.notified().await;
        let Some(this) = availability.upgrade() else { return };
        if !this.is_away().await {
            continue;
        }
        drop(this);
        let mut pause = FIRST_PAUSE;
        loop {
            // Hosts that lost the database at the same time do not reconnect at the same time.
            let [more] = random::<1>();
            tokio::time::sleep(pause + pause * u32::from(more) / 512).await;
            let Some(this) = availability.upgrade() else { return };
            if this.try_recover().await {
                break;
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}
