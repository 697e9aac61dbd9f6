//! The rows of removed plugins, which are set aside and adopted.

use super::json::encode;
use super::switches;
use super::valves::{self, Change};
use crate::clock::now;
use crate::record::{Aside, Fate};
use crate::seal::SealKey;
use crate::sql::{Row, Session, query, query_scalar};
use valvehouse_json::Json;

/// Statements that delete the rows of an owner.
const DROP: [&str; 6] = [
    "DELETE FROM valves WHERE plugin = ?",
    "DELETE FROM switches WHERE plugin = ?",
    "DELETE FROM grants WHERE id = ?",
    "DELETE FROM kv WHERE plugin = ?",
    "DELETE FROM vectors WHERE plugin = ?",
    "DELETE FROM vector_spaces WHERE plugin = ?",
];
/// Statements that move the rows of an owner to another one, whose own rows take precedence.
const MOVE: [(&str, &str); 4] = [
    ("UPDATE grants SET id = ?1 WHERE id = ?2 AND NOT EXISTS (SELECT 1 FROM grants WHERE id = ?1)", DROP[2]),
    (
        "UPDATE kv SET plugin = ?1 WHERE plugin = ?2 AND NOT EXISTS (
            SELECT 1 FROM kv AS own WHERE own.plugin = ?1 AND own.scope = kv.scope AND own.key = kv.key)",
        DROP[3],
    ),
    // Vector spaces are moved as a whole, because vectors of different models cannot share one.
    (
        "UPDATE vectors SET plugin = ?1 WHERE plugin = ?2 AND NOT EXISTS (
            SELECT 1 FROM vector_spaces AS own WHERE own.plugin = ?1 AND own.scope = vectors.scope)",
        DROP[4],
    ),
    (
        "UPDATE vector_spaces SET plugin = ?1 WHERE plugin = ?2 AND NOT EXISTS (
            SELECT 1 FROM vector_spaces AS own WHERE own.plugin = ?1 AND own.scope = vector_spaces.scope)",
        DROP[5],
    ),
];

/// Reads the checkpoints of resumable runs whose states contain an owner.
const STATES: &str = "SELECT id, state FROM checkpoints
     WHERE run IN (SELECT number FROM runs WHERE status IN ('running', 'paused', 'failed'))
     AND replace(state, ?, '') <> state";

pub(crate) async fn all(session: &mut Session) -> Result<Vec<Aside>, sqlx::Error> {
    let text = "SELECT plugin, number, fate, (
        EXISTS (SELECT 1 FROM valves WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM switches WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM grants WHERE id = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM kv WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM vectors WHERE plugin = one.plugin || '@' || one.number)) AS has_rows
        FROM set_aside AS one ORDER BY plugin, number";
    let rows = query(text).fetch_all(session).await?;
    let read = |row: &Row| {
        Ok(Aside {
            plugin: row.try_get("plugin")?,
            number: row.try_get::<i64>("number")?.unsigned_abs(),
            fate: Fate::of(row.try_get("fate")?),
            has_rows: row.try_get("has_rows")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Sets aside the stored data of a plugin. Returns `false` if that was done or decided otherwise before.
pub(crate) async fn put(
    transaction: &mut Session,
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

/// Restores the data that was set aside. The plugin's current data stays; the rest is added.
pub(crate) async fn adopt(
    transaction: &mut Session,
    key: &SealKey,
    plugin: &str,
    number: u64,
) -> Result<(), sqlx::Error> {
    decided(transaction, plugin, number, Fate::Adopted).await?;
    take_over(transaction, key, &Aside::key(plugin, number), plugin).await
}

/// Deletes the data that was set aside.
pub(crate) async fn drop_rows(
    transaction: &mut Session,
    plugin: &str,
    number: u64,
) -> Result<(), sqlx::Error> {
    decided(transaction, plugin, number, Fate::Dropped).await?;
    for delete in DROP {
        query(delete).bind(Aside::key(plugin, number)).execute(transaction).await?;
    }
    Ok(())
}

async fn decided(
    transaction: &mut Session,
    plugin: &str,
    number: u64,
    fate: Fate,
) -> Result<(), sqlx::Error> {
    if !mark(transaction, plugin, number, fate).await? {
        query("UPDATE set_aside SET fate = ? WHERE plugin = ? AND number = ?")
            .bind(fate as i64)
            .bind(plugin)
            .bind(i64::try_from(number).unwrap_or(i64::MAX))
            .execute(transaction)
            .await?;
    }
    Ok(())
}

/// Inserts the row. Returns `false` if it already exists.
async fn mark(transaction: &mut Session, plugin: &str, number: u64, fate: Fate) -> Result<bool, sqlx::Error> {
    let insert =
        "INSERT INTO set_aside (plugin, number, fate, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING";
    let done = query(insert)
        .bind(plugin)
        .bind(i64::try_from(number).unwrap_or(i64::MAX))
        .bind(fate as i64)
        .bind(now())
        .execute(transaction)
        .await?;
    Ok(done > 0)
}

/// Moves the rows of one owner to another, whose own rows take precedence.
async fn take_over(
    transaction: &mut Session,
    key: &SealKey,
    from: &str,
    to: &str,
) -> Result<(), sqlx::Error> {
    let users: Vec<Option<String>> =
        query_scalar("SELECT user_id FROM valves WHERE plugin = ?").bind(from).fetch_all(transaction).await?;
    for user in users {
        let user = user.as_deref();
        // Values are sealed for their owner, so they are sealed again.
        let values = valves::of(transaction, key, from, user).await?;
        let own = valves::of(transaction, key, to, user).await?;
        for (name, value) in own.entries() {
            values.set(&name, value).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        }
        valves::change(transaction, key, to, user, Change::Replace(&values)).await?;
        valves::change(transaction, key, from, user, Change::Reset(&[])).await?;
    }
    let (enabled, global) = switches::of(transaction, from).await?;
    let (own_enabled, own_global) = switches::of(transaction, to).await?;
    switches::put(transaction, to, own_enabled.or(enabled), own_global.or(global)).await?;
    switches::put(transaction, from, None, None).await?;
    move_states(transaction, from, to).await?;
    for (update, delete) in MOVE {
        query(update).bind(to).bind(from).execute(transaction).await?;
        query(delete).bind(from).execute(transaction).await?;
    }
    Ok(())
}

/// Moves the scratch map of one owner to another that has none.
async fn move_states(transaction: &mut Session, from: &str, to: &str) -> Result<(), sqlx::Error> {
    let named = encode(&Json::from(from))?;
    for row in query(STATES).bind(named).fetch_all(transaction).await? {
        // Rows that are not valid JSON are unchanged.
        let Ok(state) = Json::parse(row.try_get::<&str>("state")?.as_bytes()) else { continue };
        let Some(states) = state.get("states").filter(|states| states.get(to).is_none()) else { continue };
        let Some(own) = states.remove(from) else { continue };
        states.set(to, own).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        query("UPDATE checkpoints SET state = ? WHERE id = ?")
            .bind(encode(&state)?)
            .bind(row.try_get::<String>("id")?)
            .execute(transaction)
            .await?;
    }
    Ok(())
}
