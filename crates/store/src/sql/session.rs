//! Pools, and sessions on one connection of theirs.

#[cfg(feature = "postgres")]
use super::server_pool::ServerPool;
use sqlx::pool::PoolConnection;
use sqlx::{Error, Sqlite, SqliteConnection, SqlitePool, Transaction};
#[cfg(feature = "postgres")]
use sqlx::{PgConnection, Postgres};
#[cfg(feature = "postgres")]
use std::sync::Arc;

/// The connections of a store.
#[derive(Clone)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(Arc<ServerPool>),
}

/// One connection, alone or within a transaction. A transaction that is dropped is rolled back.
pub(crate) enum Session {
    Sqlite(PoolConnection<Sqlite>),
    SqliteTransaction(Transaction<'static, Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(PoolConnection<Postgres>),
    /// Behind a pooler: each statement is in a transaction, which keeps its steps on one session of the server.
    #[cfg(feature = "postgres")]
    Pooled(PoolConnection<Postgres>),
    #[cfg(feature = "postgres")]
    PostgresTransaction {
        transaction: Transaction<'static, Postgres>,
        is_pooled: bool,
    },
}

/// The connection of a session, for one statement.
pub(super) enum Link<'s> {
    Sqlite(&'s mut SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres {
        connection: &'s mut PgConnection,
        is_pooled: bool,
    },
    /// For one statement in a transaction of its own.
    #[cfg(feature = "postgres")]
    Pooled(&'s mut PgConnection),
}

/// The rows that a transaction reads and then writes, so that no other one writes them meanwhile. SQLite has
/// one writer at a time, for all rows.
#[derive(Clone, Copy)]
pub(crate) enum Lock<'a> {
    /// The decisions of operators and hosts.
    Settings,
    /// One conversation, there or not.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "SQLite locks the whole store"))]
    Conversation(&'a str),
    /// The entries of scripts' maps that are added to.
    Kv,
    /// Each statement for itself is enough.
    Nothing,
}

impl Lock<'_> {
    /// The name of the lock among those of the database.
    #[cfg(feature = "postgres")]
    fn name(self) -> Option<String> {
        match self {
            Self::Settings => Some("valvehouse settings".to_owned()),
            Self::Conversation(id) => Some(format!("valvehouse conversation {id}")),
            Self::Kv => Some("valvehouse kv".to_owned()),
            Self::Nothing => None,
        }
    }
}

/// Begins a transaction that writes, by one message. A host that stops within one, or that the network has lost, holds
/// its locks no longer than that: less than the time after which its runs are taken over.
#[cfg(feature = "postgres")]
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'";

impl Pool {
    /// Takes a connection, each statement of which is a transaction of its own.
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        match self {
            Self::Sqlite(pool) => pool.acquire().await.map(Session::Sqlite),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                let connection = pool.current().acquire().await?;
                Ok(if pool.is_pooled() { Session::Pooled(connection) } else { Session::Postgres(connection) })
            }
        }
    }

    /// Begins a transaction in which all reads are of one moment.
    pub(crate) async fn snapshot(&self) -> Result<Session, Error> {
        match self {
            Self::Sqlite(pool) => pool.begin().await.map(Session::SqliteTransaction),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                let transaction = pool.current().begin_with(begin).await?;
                Ok(Session::PostgresTransaction { transaction, is_pooled: pool.is_pooled() })
            }
        }
    }

    /// Begins a transaction that writes. What it reads under the lock still holds when it writes.
    pub(crate) async fn begin(&self, lock: Lock<'_>) -> Result<Session, Error> {
        #[cfg(not(feature = "postgres"))]
        let _ = lock;
        match self {
            Self::Sqlite(pool) => pool.begin_with("BEGIN IMMEDIATE").await.map(Session::SqliteTransaction),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                let mut transaction = pool.current().begin_with(BEGIN).await?;
                if let Some(name) = lock.name() {
                    let lock = sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))");
                    lock.bind(name).persistent(false).execute(&mut *transaction).await?;
                }
                Ok(Session::PostgresTransaction { transaction, is_pooled: pool.is_pooled() })
            }
        }
    }

    /// Closes all connections.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => pool.current().close().await,
        }
    }

    /// Opens new connections from now on, where the ones to a server no longer answer.
    #[cfg(feature = "postgres")]
    pub(crate) fn renew(&self) {
        if let Self::Postgres(pool) = self {
            pool.renew();
        }
    }
}

impl Session {
    /// Returns the connection, on which the next statement runs.
    pub(super) fn link(&mut self) -> Link<'_> {
        match self {
            Self::Sqlite(connection) => Link::Sqlite(connection),
            Self::SqliteTransaction(transaction) => Link::Sqlite(transaction),
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => Link::Postgres { connection, is_pooled: false },
            #[cfg(feature = "postgres")]
            Self::Pooled(connection) => Link::Pooled(connection),
            #[cfg(feature = "postgres")]
            Self::PostgresTransaction { transaction, is_pooled } => {
                Link::Postgres { connection: transaction, is_pooled: *is_pooled }
            }
        }
    }

    /// Ends the transaction: everything in it holds from now on.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::SqliteTransaction(transaction) => transaction.commit().await,
            #[cfg(feature = "postgres")]
            Self::PostgresTransaction { transaction, .. } => transaction.commit().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) | Self::Pooled(_) => Ok(()),
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// Ends the transaction as if nothing had been.
    pub(crate) async fn rollback(self) -> Result<(), Error> {
        match self {
            Self::SqliteTransaction(transaction) => transaction.rollback().await,
            #[cfg(feature = "postgres")]
            Self::PostgresTransaction { transaction, .. } => transaction.rollback().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) | Self::Pooled(_) => Ok(()),
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// Returns `true` if hosts on other machines may be on this store.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::SqliteTransaction(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) | Self::Pooled(_) | Self::PostgresTransaction { .. } => true,
        }
    }
}
