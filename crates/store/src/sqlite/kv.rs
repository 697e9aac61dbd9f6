//! The rows of the scripts' maps.

use super::transaction::{AT_ONCE, Transaction, encode};
use crate::clock::now;
use crate::record::{KvChange, KvRow};
use sqlx::{Row as _, SqlitePool};
use valvehouse_json::Json;

/// Reads all entries that have not ended, and drops those that have.
pub(super) async fn all(pool: &SqlitePool) -> Result<Vec<KvRow>, sqlx::Error> {
    sqlx::query("DELETE FROM kv WHERE expires_at <= ?").bind(now()).execute(pool).await?;
    let rows = sqlx::query("SELECT plugin, scope, key, value, expires_at FROM kv").fetch_all(pool).await?;
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows {
        let (plugin, key): (String, String) = (row.try_get("plugin")?, row.try_get("key")?);
        // One entry that somebody broke by hand must not take every script's map along.
        match Json::parse(row.try_get::<&str, _>("value")?.as_bytes()) {
            Ok(value) => kept.push(KvRow {
                plugin,
                scope: row.try_get("scope")?,
                key,
                value,
                expires_at: row.try_get("expires_at")?,
            }),
            Err(error) => {
                tracing::warn!(plugin, key, "left out of the script's map, no JSON: {error}")
            }
        }
    }
    Ok(kept)
}

/// Writes changes in their order.
pub(super) async fn write(transaction: &mut Transaction, changes: &[KvChange]) -> Result<(), sqlx::Error> {
    let are_set =
        |one: &KvChange, next: &KvChange| matches!((one, next), (KvChange::Set(_), KvChange::Set(_)));
    for changes in changes.chunk_by(are_set) {
        if let [KvChange::Delete { plugin, scope, key }] = changes {
            sqlx::query("DELETE FROM kv WHERE plugin = ? AND scope = ? AND key = ?")
                .bind(plugin)
                .bind(scope)
                .bind(key)
                .execute(&mut **transaction)
                .await?;
            continue;
        }
        for changes in changes.chunks(AT_ONCE) {
            insert(&mut **transaction, changes).await?;
        }
    }
    Ok(())
}

/// Writes what these changes set by one statement.
pub(super) async fn insert(
    executor: impl sqlx::SqliteExecutor<'_>,
    changes: &[KvChange],
) -> Result<(), sqlx::Error> {
    let mut rows = Vec::with_capacity(changes.len());
    for change in changes {
        if let KvChange::Set(row) = change {
            rows.push((row, encode(&row.value)?));
        }
    }
    let mut query = sqlx::QueryBuilder::<sqlx::Sqlite>::new(
        "INSERT OR REPLACE INTO kv (plugin, scope, key, value, expires_at) ",
    );
    query.push_values(rows, |mut bound, (row, value)| {
        bound
            .push_bind(&row.plugin)
            .push_bind(&row.scope)
            .push_bind(&row.key)
            .push_bind(value)
            .push_bind(row.expires_at);
    });
    query.build().execute(executor).await?;
    Ok(())
}
