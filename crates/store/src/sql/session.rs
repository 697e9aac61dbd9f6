//! Pools, and sessions on one connection of theirs.

use sqlx::pool::PoolConnection;
use sqlx::{Error, Sqlite, SqlitePool, Transaction};

/// The connections of a store.
#[derive(Clone)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
}

/// One connection, alone or within a transaction. A transaction that is dropped is rolled back.
pub(crate) enum Session {
    Sqlite(PoolConnection<Sqlite>),
    SqliteTransaction(Transaction<'static, Sqlite>),
}

impl Pool {
    /// Takes a connection, each statement of which is a transaction of its own.
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        match self {
            Self::Sqlite(pool) => pool.acquire().await.map(Session::Sqlite),
        }
    }

    /// Begins a transaction in which all reads are of one moment.
    pub(crate) async fn snapshot(&self) -> Result<Session, Error> {
        match self {
            Self::Sqlite(pool) => pool.begin().await.map(Session::SqliteTransaction),
        }
    }

    /// Begins a transaction that writes. What it reads still holds when it writes: no other one writes meanwhile.
    pub(crate) async fn begin(&self) -> Result<Session, Error> {
        match self {
            Self::Sqlite(pool) => pool.begin_with("BEGIN IMMEDIATE").await.map(Session::SqliteTransaction),
        }
    }

    /// Closes all connections.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
        }
    }
}

impl Session {
    /// Ends the transaction: everything in it holds from now on.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::SqliteTransaction(transaction) => transaction.commit().await,
        }
    }

    /// Ends the transaction as if nothing had been.
    pub(crate) async fn rollback(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::SqliteTransaction(transaction) => transaction.rollback().await,
        }
    }
}
