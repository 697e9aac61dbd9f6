//! Transactions that write, and what they have in common.

use sqlx::SqlitePool;
use valvehouse_json::Json;

/// The most rows that are written by one statement.
pub(super) const AT_ONCE: usize = 64;

pub(super) type Transaction = sqlx::Transaction<'static, sqlx::Sqlite>;

/// Begins a transaction that writes. Taking the lock at once makes read-modify-write safe.
pub(super) async fn begin(pool: &SqlitePool) -> Result<Transaction, sqlx::Error> {
    pool.begin_with("BEGIN IMMEDIATE").await
}

pub(super) async fn raise(transaction: &mut Transaction) -> Result<u64, sqlx::Error> {
    sqlx::query_scalar::<_, i64>("UPDATE store SET generation = generation + 1 RETURNING generation")
        .fetch_one(&mut **transaction)
        .await
        .map(i64::unsigned_abs)
}

pub(super) fn encode(value: &Json) -> Result<String, sqlx::Error> {
    let bytes = value.encode().map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}
