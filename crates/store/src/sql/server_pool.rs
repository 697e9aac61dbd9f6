//! The connections to a server, which are replaced if they do not respond.

use parking_lot::Mutex;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The maximum number of connections of a host, not counting the one that listens.
const MAX_CONNECTIONS: u32 = 8;
/// The time limit for getting a connection, so that waiting requests are answered within seconds.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The connections to a server, or to a pooler in front of it.
pub(crate) struct ServerPool {
    options: PgConnectOptions,
    pool: Mutex<PgPool>,
    /// `true` if a pooler assigns each transaction to another session of the server.
    is_pooled: AtomicBool,
}

impl ServerPool {
    /// Creates a pool that opens connections on demand.
    pub(crate) fn lazy(options: PgConnectOptions) -> Self {
        let pool = Mutex::new(pool_options().connect_lazy_with(options.clone()));
        Self { options, pool, is_pooled: AtomicBool::default() }
    }

    /// Sets whether a pooler is in front of the server.
    pub(crate) fn set_pooled(&self, is_pooled: bool) {
        if self.is_pooled.swap(is_pooled, Relaxed) != is_pooled {
            self.renew();
        }
    }

    /// Returns the current pool.
    pub(super) fn current(&self) -> PgPool {
        self.pool.lock().clone()
    }

    /// Returns `true` if prepared statements and subscriptions do not outlive a transaction.
    pub(crate) fn is_pooled(&self) -> bool {
        self.is_pooled.load(Relaxed)
    }

    /// Replaces all connections. Those to a dead server would occupy the pool until the network reports them
    /// lost, after a quarter of an hour.
    pub(crate) fn renew(&self) {
        let options = self.options.clone();
        let options = if self.is_pooled() { options.statement_cache_capacity(0) } else { options };
        *self.pool.lock() = pool_options().connect_lazy_with(options);
    }
}

fn pool_options() -> PgPoolOptions {
    PgPoolOptions::new().max_connections(MAX_CONNECTIONS).acquire_timeout(TIMEOUT)
}
