//! The rows of kv entries.

use super::json::{AT_ONCE, encode};
use crate::clock::now;
use crate::kv::joined;
use crate::record::{KvChange, KvRow};
use crate::sql::{self, Session, query, values};
use std::collections::HashMap;
use valvehouse_json::Json;

/// Reads all entries that have not expired, and deletes the others.
pub(crate) async fn all(session: &mut Session) -> sqlx::Result<Vec<KvRow>> {
    query("DELETE FROM kv WHERE expires_at <= ?").bind(now()).execute(session).await?;
    read(session).await
}

/// Reads all entries.
pub(crate) async fn read(session: &mut Session) -> sqlx::Result<Vec<KvRow>> {
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

/// Returns `true` if any of these changes is added to a stored value.
pub(crate) fn are_merged(changes: &[KvChange]) -> bool {
    changes.iter().any(|change| matches!(change, KvChange::Add(_) | KvChange::Hits(..)))
}

/// Reads these entries with one statement, and locks them until the transaction ends.
pub(crate) async fn stored(
    transaction: &mut Session,
    places: &[[&str; 3]],
) -> sqlx::Result<HashMap<[String; 3], KvRow>> {
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
    let rows = read.bind_all(values![encode(&places.into())?, now()]).fetch_all(transaction).await?;
    let read = |row: sql::Row| {
        let place: [String; 3] = [row.try_get("plugin")?, row.try_get("scope")?, row.try_get("key")?];
        let [plugin, scope, key] = place.clone();
        let value = Json::parse(row.try_get::<&str>("value")?.as_bytes()).unwrap_or(Json::Null);
        Ok((place, KvRow { plugin, scope, key, value, expires_at: row.try_get("expires_at")? }))
    };
    rows.into_iter().map(read).collect()
}

/// Writes changes in order, with additions replaced by their results. The entries are locked until the
/// transaction ends.
pub(crate) async fn write_merged(transaction: &mut Session, changes: &[KvChange]) -> sqlx::Result<()> {
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
    write(transaction, &all).await
}

/// Writes changes in order.
pub(crate) async fn write(transaction: &mut Session, changes: &[KvChange]) -> sqlx::Result<()> {
    let are_set =
        |one: &KvChange, next: &KvChange| matches!((one, next), (KvChange::Set(_), KvChange::Set(_)));
    for changes in changes.chunk_by(are_set) {
        if let [KvChange::Delete { plugin, scope, key }] = changes {
            let delete = query("DELETE FROM kv WHERE plugin = ? AND scope = ? AND key = ?");
            delete.bind_all(values![plugin, scope, key]).execute(transaction).await?;
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
pub(crate) async fn insert(session: &mut Session, changes: &[KvChange]) -> sqlx::Result<()> {
    let mut rows: Vec<([&String; 3], String, Option<i64>)> = Vec::with_capacity(changes.len());
    for change in changes {
        if let KvChange::Set(KvRow { plugin, scope, key, value, expires_at }) = change {
            let value = encode(value)?;
            // The last change of an entry counts; a statement must not contain an entry twice.
            rows.retain(|(place, ..)| *place != [plugin, scope, key]);
            rows.push(([plugin, scope, key], value, *expires_at));
        }
    }
    let rows = rows
        .into_iter()
        .map(|([plugin, scope, key], value, expires_at)| values![plugin, scope, key, value, expires_at]);
    let head = "INSERT INTO kv (plugin, scope, key, value, expires_at)";
    let tail = "ON CONFLICT (plugin, scope, key) DO UPDATE SET
         value = excluded.value, expires_at = excluded.expires_at";
    sql::insert(head, rows, tail).execute(session).await?;
    Ok(())
}
