//! Pools, and sessions on their connections.

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

/// A connection, with or without a transaction. A transaction is rolled back if it is dropped.
pub(crate) enum Session {
    Sqlite(PoolConnection<Sqlite>),
    SqliteTransaction(Transaction<'static, Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(PoolConnection<Postgres>),
    /// A connection to a pooler: each statement runs in a transaction, which keeps its steps on one session
    /// of the server.
    #[cfg(feature = "postgres")]
    Pooled(PoolConnection<Postgres>),
    #[cfg(feature = "postgres")]
    PostgresTransaction {
        transaction: Transaction<'static, Postgres>,
        is_pooled: bool,
    },
}

/// The connection of a session, borrowed for one statement.
pub(super) enum Link<'s> {
    Sqlite(&'s mut SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres {
        connection: &'s mut PgConnection,
        is_pooled: bool,
    },
    /// For one statement in a separate transaction.
    #[cfg(feature = "postgres")]
    Pooled(&'s mut PgConnection),
}

/// The rows that a transaction reads before it writes, locked against other writers. SQLite has only one
/// writer at a time.
#[derive(Clone, Copy)]
pub(crate) enum Lock<'a> {
    /// The settings of operators, and the records of hosts.
    Settings,
    /// A conversation, which may not exist.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "SQLite locks the whole store"))]
    Conversation(&'a str),
    /// The kv entries that values are added to.
    Kv,
    /// No lock: each statement is independent.
    Nothing,
}

impl Lock<'_> {
    /// Returns the name of the lock in the database.
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

/// Starts a writing transaction with one message. The timeout releases the locks of a host that is suspended
/// or unreachable, before its runs are taken over.
#[cfg(feature = "postgres")]
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'";

impl Pool {
    /// Takes a connection on which each statement is a separate transaction.
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

    /// Starts a transaction whose reads are consistent.
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

    /// Starts a writing transaction. The rows under the lock cannot change before it writes.
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

    /// Replaces the connections to a server.
    pub(crate) fn renew(&self) {
        match self {
            Self::Sqlite(_) => {}
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => pool.renew(),
        }
    }
}

impl Session {
    /// Returns the connection for the next statement.
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

    /// Commits the transaction, if there is one.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::SqliteTransaction(transaction) => transaction.commit().await,
            #[cfg(feature = "postgres")]
            Self::PostgresTransaction { transaction, .. } => transaction.commit().await,
            _ => Ok(()),
        }
    }

    /// Commits the transaction, and returns this value.
    pub(crate) async fn commit_with<T>(self, value: T) -> Result<T, Error> {
        self.commit().await.map(|()| value)
    }

    /// Returns `true` if hosts on other computers may share this store.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::SqliteTransaction(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) | Self::Pooled(_) | Self::PostgresTransaction { .. } => true,
        }
    }
}
