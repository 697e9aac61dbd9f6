//! The rows of the scripts' maps.

use super::json::{AT_ONCE, encode};
use crate::clock::now;
use crate::kv::joined;
#[cfg(feature = "postgres")]
use crate::record::{HOST_SILENCE, KvNews};
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
                tracing::warn!(plugin, key, "skipped a kv entry that is not valid JSON: {error}")
            }
        }
    }
    Ok(kept)
}

/// Reads the entries that were written since a mark, or all of them since 0. Transactions that the mark was read beside come
/// again.
#[cfg(feature = "postgres")]
pub(crate) async fn news(session: &mut Session, since: u64) -> Result<KvNews, sqlx::Error> {
    let known = now() - i64::try_from(HOST_SILENCE.as_millis()).unwrap_or(i64::MAX);
    // Before the rows: what is written in between is among the next news at the latest.
    let row = query(
        "SELECT txid_snapshot_xmin(txid_current_snapshot()) AS mark,
            (SELECT count(*) FROM hosts WHERE seen_at >= ?) AS hosts",
    )
    .bind(known)
    .fetch_one(session)
    .await?;
    let (mark, hosts): (i64, i64) = (row.try_get("mark")?, row.try_get("hosts")?);
    if since == 0 {
        return Ok(KvNews {
            rows: all(session).await?,
            mark: mark.unsigned_abs(),
            hosts: hosts.unsigned_abs(),
        });
    }
    let rows = query(
        "SELECT news.plugin AS plugin, news.scope AS scope, news.key AS key, value, expires_at
         FROM kv_changes AS news LEFT JOIN kv USING (plugin, scope, key) WHERE news.changed >= ?",
    )
    .bind(i64::try_from(since).unwrap_or(i64::MAX))
    .fetch_all(session)
    .await?;
    let read = |row: &sql::Row| {
        let value: Option<&str> = row.try_get("value")?;
        Ok(KvRow {
            plugin: row.try_get("plugin")?,
            scope: row.try_get("scope")?,
            key: row.try_get("key")?,
            value: value.and_then(|value| Json::parse(value.as_bytes()).ok()).into(),
            expires_at: row.try_get("expires_at")?,
        })
    };
    let rows = rows.iter().map(read).collect::<Result<_, sqlx::Error>>()?;
    Ok(KvNews { rows, mark: mark.unsigned_abs(), hosts: hosts.unsigned_abs() })
}

/// Drops entries that have ended, and what is known of changes that all hosts have seen.
#[cfg(feature = "postgres")]
pub(crate) async fn clear(session: &mut Session) -> Result<(), sqlx::Error> {
    query("DELETE FROM kv WHERE expires_at <= ?").bind(now()).execute(session).await?;
    query("DELETE FROM kv_changes WHERE at < now() - interval '1 hour'").execute(session).await?;
    Ok(())
}

/// Returns `true` if some of these changes are added to what is stored.
pub(crate) fn are_merged(changes: &[KvChange]) -> bool {
    changes.iter().any(|change| matches!(change, KvChange::Add(_) | KvChange::Hits(..)))
}

/// Returns these changes with what comes of adding them to what is stored. Nobody else may write it meanwhile.
pub(crate) async fn merged(
    transaction: &mut Session,
    changes: &[KvChange],
) -> Result<Vec<KvChange>, sqlx::Error> {
    let mut all = Vec::with_capacity(changes.len());
    for change in changes {
        let (KvChange::Add(row) | KvChange::Hits(row, _)) = change else {
            all.push(change.clone());
            continue;
        };
        let stored = query(
            "SELECT value, expires_at FROM kv WHERE plugin = ? AND scope = ? AND key = ?
             AND (expires_at IS NULL OR expires_at > ?)",
        );
        let stored = stored.bind(&row.plugin).bind(&row.scope).bind(&row.key).bind(now());
        let Some(stored) = stored.fetch_optional(transaction).await? else {
            all.push(KvChange::Set(row.clone()));
            continue;
        };
        let value = Json::parse(stored.try_get::<&str>("value")?.as_bytes()).unwrap_or(Json::Null);
        let stored = KvRow { value, expires_at: stored.try_get("expires_at")?, ..row.clone() };
        all.push(joined(Some(&KvChange::Set(stored)), change.clone(), now()));
    }
    Ok(all)
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
