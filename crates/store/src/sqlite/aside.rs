//! What is stored for plugins that are gone, set aside and taken over.

use super::switches;
use super::transaction::Transaction;
use super::valves::{self, Change};
use crate::clock::now;
use crate::record::{Aside, Fate};
use crate::seal::SealKey;
use sqlx::{Row as _, SqlitePool};
use valvehouse_json::Object;

/// The rows of an owner are dropped.
const DROP: [&str; 4] = [
    "DELETE FROM valves WHERE plugin = ?",
    "DELETE FROM switches WHERE plugin = ?",
    "DELETE FROM grants WHERE id = ?",
    "DELETE FROM kv WHERE plugin = ?",
];
/// The rows of an owner go to another one, whose own rows win.
const MOVE: [(&str, &str); 2] = [
    ("UPDATE OR IGNORE grants SET id = ? WHERE id = ?", DROP[2]),
    ("UPDATE OR IGNORE kv SET plugin = ? WHERE plugin = ?", DROP[3]),
];

/// The same of the scratch maps in runs that may go on.
const STATES: &str = "UPDATE checkpoints
     SET state = json_set(json_remove(state, ?1), ?2, json_extract(state, ?1))
     WHERE run IN (SELECT number FROM runs WHERE status IN ('running', 'paused', 'failed'))
     AND json_valid(state) AND json_type(state, ?1) IS NOT NULL AND json_type(state, ?2) IS NULL";

pub(super) async fn all(pool: &SqlitePool) -> Result<Vec<Aside>, sqlx::Error> {
    let query = "SELECT plugin, number, fate, (
        EXISTS (SELECT 1 FROM valves WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM switches WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM grants WHERE id = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM kv WHERE plugin = one.plugin || '@' || one.number)) AS has_rows
        FROM set_aside AS one ORDER BY plugin, number";
    let rows = sqlx::query(query).fetch_all(pool).await?;
    let read = |row: &sqlx::sqlite::SqliteRow| {
        Ok(Aside {
            plugin: row.try_get("plugin")?,
            number: row.try_get::<i64, _>("number")?.unsigned_abs(),
            fate: Fate::of(row.try_get("fate")?),
            has_rows: row.try_get("has_rows")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Sets aside what is stored for a plugin; `false` where that was done, or decided otherwise, before.
pub(super) async fn put(
    transaction: &mut Transaction,
    key: &SealKey,
    plugin: &str,
    number: u64,
) -> Result<bool, sqlx::Error> {
    if !mark(transaction, plugin, number, Fate::Aside).await? {
        return Ok(false);
    }
    let aside = Aside::key(plugin, number);
    take_over(transaction, key, plugin, &aside).await?;
    Ok(true)
}

/// Takes over what was set aside. What is stored for the plugin now stays; the rest is added.
pub(super) async fn adopt(
    transaction: &mut Transaction,
    key: &SealKey,
    plugin: &str,
    number: u64,
) -> Result<(), sqlx::Error> {
    decided(transaction, plugin, number, Fate::Adopted).await?;
    take_over(transaction, key, &Aside::key(plugin, number), plugin).await
}

/// Drops what was set aside.
pub(super) async fn drop_rows(
    transaction: &mut Transaction,
    plugin: &str,
    number: u64,
) -> Result<(), sqlx::Error> {
    decided(transaction, plugin, number, Fate::Dropped).await?;
    for delete in DROP {
        sqlx::query(delete).bind(Aside::key(plugin, number)).execute(&mut **transaction).await?;
    }
    Ok(())
}

async fn decided(
    transaction: &mut Transaction,
    plugin: &str,
    number: u64,
    fate: Fate,
) -> Result<(), sqlx::Error> {
    if !mark(transaction, plugin, number, fate).await? {
        sqlx::query("UPDATE set_aside SET fate = ? WHERE plugin = ? AND number = ?")
            .bind(fate as i64)
            .bind(plugin)
            .bind(i64::try_from(number).unwrap_or(i64::MAX))
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}

/// Returns `false` if the row was there.
async fn mark(
    transaction: &mut Transaction,
    plugin: &str,
    number: u64,
    fate: Fate,
) -> Result<bool, sqlx::Error> {
    let insert = "INSERT OR IGNORE INTO set_aside (plugin, number, fate, at) VALUES (?, ?, ?, ?)";
    let done = sqlx::query(insert)
        .bind(plugin)
        .bind(i64::try_from(number).unwrap_or(i64::MAX))
        .bind(fate as i64)
        .bind(now())
        .execute(&mut **transaction)
        .await?;
    Ok(done.rows_affected() > 0)
}

/// Moves the rows of one owner to another, whose own rows win.
async fn take_over(
    transaction: &mut Transaction,
    key: &SealKey,
    from: &str,
    to: &str,
) -> Result<(), sqlx::Error> {
    let users: Vec<Option<String>> = sqlx::query_scalar("SELECT user_id FROM valves WHERE plugin = ?")
        .bind(from)
        .fetch_all(&mut **transaction)
        .await?;
    for user in users {
        let user = user.as_deref();
        // Sealed for its owner: it opens nowhere else.
        let values = valves::of(transaction, key, from, user).await?;
        let own = valves::of(transaction, key, to, user).await?;
        for (name, value) in own.as_object().map(Object::entries).unwrap_or_default() {
            values.set(&name, value).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        }
        valves::change(transaction, key, to, user, Change::Replace(&values)).await?;
        valves::change(transaction, key, from, user, Change::Reset(&[])).await?;
    }
    let (enabled, global) = switches::of(transaction, from).await?;
    let (own_enabled, own_global) = switches::of(transaction, to).await?;
    switches::put(transaction, to, own_enabled.or(enabled), own_global.or(global)).await?;
    switches::put(transaction, from, None, None).await?;
    let place = |owner: &str| format!("$.states.\"{owner}\"");
    sqlx::query(STATES).bind(place(from)).bind(place(to)).execute(&mut **transaction).await?;
    for (update, delete) in MOVE {
        sqlx::query(update).bind(to).bind(from).execute(&mut **transaction).await?;
        sqlx::query(delete).bind(from).execute(&mut **transaction).await?;
    }
    Ok(())
}
