//! The rows of kv entries.

use super::json::{AT_ONCE, encode};
use crate::clock::now;
use crate::kv::joined;
use crate::record::{HOST_SILENCE, KvChange, KvNews, KvRow};
use crate::sql::{self, Session, query};
use std::collections::HashMap;
use valvehouse_json::Json;

/// Reads all entries that have not expired, and deletes the others.
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
        // An entry that was corrupted by hand must not hide the others.
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

/// Reads the generation of the store and the entries changed since a mark; all entries for 0. Changes of
/// transactions that were in progress at the mark are returned again.
pub(crate) async fn news(session: &mut Session, since: u64) -> Result<KvNews, sqlx::Error> {
    let known = now() - i64::try_from(HOST_SILENCE.as_millis()).unwrap_or(i64::MAX);
    // The mark is read before the rows, if those are read by another statement. Concurrent changes are part
    // of the next call at the latest.
    let since_then = if since == 0 { u64::MAX } else { since };
    let rows = query(
        "SELECT generation, txid_snapshot_xmin(txid_current_snapshot()) AS mark,
            (SELECT count(*) FROM hosts WHERE seen_at >= ?) AS hosts,
            news.plugin AS plugin, news.scope AS scope, news.key AS key, value, expires_at
         FROM store LEFT JOIN kv_changes AS news ON news.changed >= ?
            LEFT JOIN kv ON kv.plugin = news.plugin AND kv.scope = news.scope AND kv.key = news.key",
    )
    .bind(known)
    .bind(i64::try_from(since_then).unwrap_or(i64::MAX))
    .fetch_all(session)
    .await?;
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let number = |column| first.try_get::<i64>(column).map(i64::unsigned_abs);
    let news = KvNews {
        generation: number("generation")?,
        mark: number("mark")?,
        hosts: number("hosts")?,
        rows: Vec::new(),
    };
    if since == 0 {
        return Ok(KvNews { rows: all(session).await?, ..news });
    }
    let read = |row: &sql::Row| {
        let Some(plugin) = row.try_get::<Option<String>>("plugin")? else { return Ok(None) };
        let value: Option<&str> = row.try_get("value")?;
        Ok(Some(KvRow {
            plugin,
            scope: row.try_get("scope")?,
            key: row.try_get("key")?,
            value: value.and_then(|value| Json::parse(value.as_bytes()).ok()).into(),
            expires_at: row.try_get("expires_at")?,
        }))
    };
    let rows = rows.iter().filter_map(|row| read(row).transpose()).collect::<Result<_, sqlx::Error>>()?;
    Ok(KvNews { rows, ..news })
}

/// Deletes expired entries, and records of changes that all hosts have read.
pub(crate) async fn clear(session: &mut Session) -> Result<(), sqlx::Error> {
    query("DELETE FROM kv WHERE expires_at <= ?").bind(now()).execute(session).await?;
    query("DELETE FROM kv_changes WHERE at < now() - interval '1 hour'").execute(session).await?;
    Ok(())
}

/// Returns `true` if any of these changes is added to a stored value.
pub(crate) fn are_merged(changes: &[KvChange]) -> bool {
    changes.iter().any(|change| matches!(change, KvChange::Add(_) | KvChange::Hits(..)))
}

/// Reads these entries with one statement, and locks them until the transaction ends.
async fn stored(
    transaction: &mut Session,
    places: &[[&str; 3]],
) -> Result<HashMap<[String; 3], KvRow>, sqlx::Error> {
    const OF_SERVER: &str = "SELECT plugin, scope, key, value, expires_at
        FROM json_array_elements(?::json) AS places(place)
            JOIN kv ON plugin = place->>0 AND scope = place->>1 AND key = place->>2
        WHERE expires_at IS NULL OR expires_at > ? FOR UPDATE OF kv";
    const OF_FILE: &str = "SELECT plugin, scope, kv.key AS key, kv.value AS value, expires_at
        FROM json_each(?) AS place
            JOIN kv ON plugin = place.value->>0 AND scope = place.value->>1 AND kv.key = place.value->>2
        WHERE expires_at IS NULL OR expires_at > ?";
    if places.is_empty() {
        return Ok(HashMap::new());
    }
    let read = query(if transaction.is_shared() { OF_SERVER } else { OF_FILE });
    let places: Vec<Json> = places.iter().map(|place| place.map(Json::from).to_vec().into()).collect();
    let rows = read.bind(encode(&places.into())?).bind(now()).fetch_all(transaction).await?;
    let read = |row: sql::Row| {
        let place: [String; 3] = [row.try_get("plugin")?, row.try_get("scope")?, row.try_get("key")?];
        let [plugin, scope, key] = place.clone();
        let value = Json::parse(row.try_get::<&str>("value")?.as_bytes()).unwrap_or(Json::Null);
        Ok((place, KvRow { plugin, scope, key, value, expires_at: row.try_get("expires_at")? }))
    };
    rows.into_iter().map(read).collect()
}

/// Returns these changes with additions replaced by their results. The entries are locked until the
/// transaction ends.
pub(crate) async fn merged(
    transaction: &mut Session,
    changes: &[KvChange],
) -> Result<Vec<KvChange>, sqlx::Error> {
    let added = changes.iter().filter(|change| matches!(change, KvChange::Add(_) | KvChange::Hits(..)));
    let places: Vec<_> = added.map(KvChange::place).collect();
    let stored = stored(transaction, &places).await?;
    let mut known: HashMap<_, _> =
        stored.into_iter().map(|(place, row)| (place, KvChange::Set(row))).collect();
    let mut all = Vec::with_capacity(changes.len());
    for change in changes {
        let place = change.place().map(str::to_owned);
        let change = match (known.get(&place), change) {
            (None, KvChange::Add(row) | KvChange::Hits(row, _)) => KvChange::Set(row.clone()),
            (earlier, change) => joined(earlier, change.clone(), now()),
        };
        // A value of another type is unchanged.
        if matches!(change, KvChange::Set(_) | KvChange::Delete { .. }) {
            known.insert(place, change.clone());
            all.push(change);
        }
    }
    Ok(all)
}

/// Makes a change of an entry if the stored one equals `before`; null stands for no entry. Otherwise returns
/// the stored entry. It is locked until the transaction ends.
pub(crate) async fn swap(
    transaction: &mut Session,
    before: &KvRow,
    change: &KvChange,
) -> Result<Option<KvRow>, sqlx::Error> {
    let stored = stored(transaction, &[change.place()]).await?.into_values().next();
    let stored = stored.unwrap_or_else(|| KvRow { value: Json::Null, expires_at: None, ..before.clone() });
    if stored != *before {
        return Ok(Some(stored));
    }
    write(transaction, std::slice::from_ref(change)).await?;
    Ok(None)
}

/// Writes changes in order.
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

/// Returns `true` if these changes can be written by one statement, which needs no transaction.
pub(crate) fn is_one_statement(changes: &[KvChange]) -> bool {
    (1..=AT_ONCE).contains(&changes.len()) && changes.iter().all(|change| matches!(change, KvChange::Set(_)))
}

/// Writes these changes with one statement.
pub(crate) async fn insert(session: &mut Session, changes: &[KvChange]) -> Result<(), sqlx::Error> {
    let mut rows: Vec<([&String; 3], String, Option<i64>)> = Vec::with_capacity(changes.len());
    for change in changes {
        if let KvChange::Set(KvRow { plugin, scope, key, value, expires_at }) = change {
            let value = encode(value)?;
            // The last change of an entry counts; a statement must not contain an entry twice.
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
