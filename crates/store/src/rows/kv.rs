//! The rows of the scripts' maps.

use super::json::{AT_ONCE, encode};
use crate::clock::now;
use crate::record::{KvChange, KvRow};
use crate::sql::{self, Session, query};
use valvehouse_json::Json;

/// Reads all entries that have not ended, and drops those that have.
pub(crate) async fn all(session: &mut Session) -> Result<Vec<KvRow>, sqlx::Error> {
    query("DELETE FROM kv WHERE expires_at <= ?").bind(now()).execute(session).await?;
    read(session).await
}

/// Reads all entries.
pub(crate) async fn read(session: &mut Session) -> Result<Vec<KvRow>, sqlx::Error> {
    let rows = query("SELECT plugin, scope, key, value, expires_at FROM kv").fetch_all(session).await?;
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows {
        let (plugin, key): (String, String) = (row.try_get("plugin")?, row.try_get("key")?);
        // One entry that somebody broke by hand must not take every script's map along.
        match Json::parse(row.try_get::<&str>("value")?.as_bytes()) {
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
pub(crate) async fn write(transaction: &mut Session, changes: &[KvChange]) -> Result<(), sqlx::Error> {
    let are_set =
        |one: &KvChange, next: &KvChange| matches!((one, next), (KvChange::Set(_), KvChange::Set(_)));
    for changes in changes.chunk_by(are_set) {
        if let [KvChange::Delete { plugin, scope, key }] = changes {
            query("DELETE FROM kv WHERE plugin = ? AND scope = ? AND key = ?")
                .bind(plugin)
                .bind(scope)
                .bind(key)
                .execute(transaction)
                .await?;
            continue;
        }
        for changes in changes.chunks(AT_ONCE) {
            insert(transaction, changes).await?;
        }
    }
    Ok(())
}

/// Returns `true` if one statement writes these changes: a transaction of its own.
pub(crate) fn is_one_statement(changes: &[KvChange]) -> bool {
    (1..=AT_ONCE).contains(&changes.len()) && changes.iter().all(|change| matches!(change, KvChange::Set(_)))
}

/// Writes what these changes set by one statement.
pub(crate) async fn insert(session: &mut Session, changes: &[KvChange]) -> Result<(), sqlx::Error> {
    let mut rows: Vec<([&String; 3], String, Option<i64>)> = Vec::with_capacity(changes.len());
    for change in changes {
        if let KvChange::Set(KvRow { plugin, scope, key, value, expires_at }) = change {
            let value = encode(value)?;
            // Of changes to one entry the last holds; a statement must not name it twice.
            rows.retain(|(place, ..)| *place != [plugin, scope, key]);
            rows.push(([plugin, scope, key], value, *expires_at));
        }
    }
    let rows = rows.into_iter().map(|([plugin, scope, key], value, expires_at)| {
        [plugin.into(), scope.into(), key.into(), value.into(), expires_at.into()]
    });
    let head = "INSERT INTO kv (plugin, scope, key, value, expires_at)";
    let tail = "ON CONFLICT (plugin, scope, key) DO UPDATE SET
         value = excluded.value, expires_at = excluded.expires_at";
    sql::insert(head, rows, tail).execute(session).await?;
    Ok(())
}
