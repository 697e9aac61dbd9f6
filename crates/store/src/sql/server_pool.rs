//! The connections to a server, replaced where they no longer answer.

use parking_lot::Mutex;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::time::Duration;

/// The most connections of a host, the one that listens apart.
const MAX_CONNECTIONS: u32 = 8;
/// The time that a piece of work waits for a connection: requests behind it are answered within seconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Connections to a server, or to a pooler before it.
pub(crate) struct ServerPool {
    options: PgConnectOptions,
    pool: Mutex<PgPool>,
    /// A pooler hands each transaction to another session of the server.
    is_pooled: bool,
}

impl ServerPool {
    /// Connects.
    ///
    /// # Errors
    /// Returns an error if the server does not let it in.
    pub(crate) async fn connect(options: PgConnectOptions, is_pooled: bool) -> Result<Self, sqlx::Error> {
        let pool = pool_options().connect_with(options.clone()).await?;
        Ok(Self { options, pool: Mutex::new(pool), is_pooled })
    }

    /// Returns the connections that are used now.
    pub(super) fn current(&self) -> PgPool {
        self.pool.lock().clone()
    }

    /// Returns `true` if what is prepared or listened to does not outlive a transaction.
    pub(crate) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Opens new connections from now on: those of today lead to a server that is gone without a word, and each of them
    /// would keep its place until the network gives it up, after a quarter of an hour.
    pub(crate) fn renew(&self) {
        *self.pool.lock() = pool_options().connect_lazy_with(self.options.clone());
    }
}

fn pool_options() -> PgPoolOptions {
    PgPoolOptions::new().max_connections(MAX_CONNECTIONS).acquire_timeout(PATIENCE)
}
