//! The connections to a server, replaced where they no longer answer.

use parking_lot::Mutex;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    is_pooled: AtomicBool,
}

impl ServerPool {
    /// Connections that are opened when they are needed.
    pub(crate) fn lazy(options: PgConnectOptions) -> Self {
        let pool = Mutex::new(pool_options().connect_lazy_with(options.clone()));
        Self { options, pool, is_pooled: AtomicBool::default() }
    }

    /// Notes whether a pooler is between here and the server.
    pub(crate) fn set_pooled(&self, is_pooled: bool) {
        if self.is_pooled.swap(is_pooled, Relaxed) != is_pooled {
            self.renew();
        }
    }

    /// Returns the connections that are used now.
    pub(super) fn current(&self) -> PgPool {
        self.pool.lock().clone()
    }

    /// Returns `true` if what is prepared or listened to does not outlive a transaction.
    pub(crate) fn is_pooled(&self) -> bool {
        self.is_pooled.load(Relaxed)
    }

    /// Opens new connections from now on: those of today lead to a server that is gone without a word, and each of them
    /// would keep its place until the network gives it up, after a quarter of an hour.
    pub(crate) fn renew(&self) {
        let options = self.options.clone();
        let options = if self.is_pooled() { options.statement_cache_capacity(0) } else { options };
        *self.pool.lock() = pool_options().connect_lazy_with(options);
    }
}

fn pool_options() -> PgPoolOptions {
    PgPoolOptions::new().max_connections(MAX_CONNECTIONS).acquire_timeout(PATIENCE)
}
