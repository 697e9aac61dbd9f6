//! The rows of valves.

use super::sealed_value;
use crate::record::StoredValves;
use crate::seal::{SealKey, is_sealed};
use crate::sql::{Session, query, query_scalar};
use valvehouse_json::Json;

/// A change of stored valves.
pub(crate) enum Change<'a> {
    Replace(&'a Json),
    Merge(&'a Json),
    Reset(&'a [String]),
}

pub(crate) async fn all(connection: &mut Session, key: &SealKey) -> Result<Vec<StoredValves>, sqlx::Error> {
    let rows = query(
        "SELECT plugin, user_id, content FROM valves WHERE plugin NOT LIKE '%@%' ORDER BY plugin, user_id NULLS FIRST",
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let plugin: String = row.try_get("plugin")?;
            let user: Option<String> = row.try_get("user_id")?;
            let content: &str = row.try_get("content")?;
            let values = read(key, &plugin, user.as_deref(), content)?;
            Ok(StoredValves { plugin, user, values, is_plain: !is_sealed(content) })
        })
        .collect()
}

/// Returns the values of operators, by plugin.
pub(crate) async fn of_operators(
    connection: &mut Session,
    key: &SealKey,
) -> Result<Vec<(String, Json)>, sqlx::Error> {
    let query = query("SELECT plugin, content FROM valves WHERE user_id IS NULL AND plugin NOT LIKE '%@%'");
    let rows = query.fetch_all(connection).await?;
    let values = rows.iter().map(|row| {
        let plugin: String = row.try_get("plugin")?;
        let values = read(key, &plugin, None, row.try_get("content")?)?;
        Ok((plugin, values))
    });
    values.collect()
}

pub(crate) async fn of(
    connection: &mut Session,
    key: &SealKey,
    plugin: &str,
    user: Option<&str>,
) -> Result<Json, sqlx::Error> {
    let content: Option<String> =
        query_scalar("SELECT content FROM valves WHERE plugin = ? AND user_id IS NOT DISTINCT FROM ?")
            .bind(plugin)
            .bind(user)
            .fetch_optional(connection)
            .await?;
    content.map_or_else(|| Ok(Json::object()), |content| read(key, plugin, user, &content))
}

pub(crate) async fn change(
    transaction: &mut Session,
    key: &SealKey,
    plugin: &str,
    user: Option<&str>,
    change: Change<'_>,
) -> Result<(), sqlx::Error> {
    let values = match change {
        Change::Replace(values) => merged(Json::object(), values)?,
        Change::Merge(values) => merged(of(transaction, key, plugin, user).await?, values)?,
        // The stored values are not read, so that an unreadable row can be reset.
        Change::Reset([]) => Json::object(),
        Change::Reset(keys) => {
            let stored = of(transaction, key, plugin, user).await?;
            for key in keys {
                stored.remove(key);
            }
            stored
        }
    };
    query("DELETE FROM valves WHERE plugin = ? AND user_id IS NOT DISTINCT FROM ?")
        .bind(plugin)
        .bind(user)
        .execute(transaction)
        .await?;
    if !values.is_empty() {
        query("INSERT INTO valves (plugin, user_id, content) VALUES (?, ?, ?)")
            .bind(plugin)
            .bind(user)
            .bind(sealed_value::seal(key, &values, &sealed_value::valves_of(plugin, user))?)
            .execute(transaction)
            .await?;
    }
    Ok(())
}

/// Returns the stored values with the given ones merged in; a null removes its key.
fn merged(stored: Json, given: &Json) -> Result<Json, sqlx::Error> {
    let Some(given) = given.as_object() else {
        return Err(sqlx::Error::Encode("invalid valves: expected an object of names and values".into()));
    };
    for (key, value) in given.entries() {
        if value.is_null() {
            stored.remove(&key);
        } else {
            stored.set(&key, value.deep_clone()).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        }
    }
    Ok(stored)
}

fn read(key: &SealKey, plugin: &str, user: Option<&str>, content: &str) -> Result<Json, sqlx::Error> {
    sealed_value::unseal(key, content, &sealed_value::valves_of(plugin, user)).map_err(|why| {
        let what = format!("the stored valves of {plugin} {why}");
        sqlx::Error::Decode(format!("{what}; delete them with `valvehouse valves reset {plugin}`").into())
    })
}
