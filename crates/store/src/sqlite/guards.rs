//! The rows that keep a guard from dropping out: last good versions, confirmed changes, models.

use super::transaction::{AT_ONCE, Transaction, encode};
use crate::clock::now;
use crate::record::{Confirmed, LastGood};
use sqlx::{Row as _, SqlitePool};
use valvehouse_json::Json;

/// Reads the last version of every script that loaded.
pub(super) async fn last_good(pool: &SqlitePool) -> Result<Vec<LastGood>, sqlx::Error> {
    let rows =
        sqlx::query("SELECT id, path, hash, source, imports, security, saved_at FROM last_good ORDER BY id")
            .fetch_all(pool)
            .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LastGood {
                id: row.try_get("id")?,
                path: row.try_get("path")?,
                hash: row.try_get("hash")?,
                source: row.try_get("source")?,
                // Without them it does not load, and says so.
                imports: Json::parse(row.try_get::<String, _>("imports")?.as_bytes()).unwrap_or_default(),
                security: row.try_get("security")?,
                saved_at: row.try_get("saved_at")?,
            })
        })
        .collect()
}

/// Writes down versions that loaded, each in place of the one before.
pub(super) async fn save_last_good(
    transaction: &mut Transaction,
    versions: &[LastGood],
) -> Result<(), sqlx::Error> {
    for versions in versions.chunks(AT_ONCE) {
        let imports =
            versions.iter().map(|version| encode(&version.imports)).collect::<Result<Vec<_>, _>>()?;
        let mut query = sqlx::QueryBuilder::<sqlx::Sqlite>::new(
            "INSERT OR REPLACE INTO last_good (id, path, hash, source, imports, security, saved_at) ",
        );
        query.push_values(versions.iter().zip(imports), |mut row, (version, imports)| {
            row.push_bind(&version.id)
                .push_bind(&version.path)
                .push_bind(&version.hash)
                .push_bind(&version.source)
                .push_bind(imports)
                .push_bind(version.security)
                .push_bind(version.saved_at);
        });
        query.build().execute(&mut **transaction).await?;
    }
    // What was confirmed of an earlier version says nothing of this one.
    for version in versions.iter().filter(|version| version.security) {
        sqlx::query("DELETE FROM confirmed WHERE plugin = ? AND what NOT IN ('off', 'narrow')")
            .bind(&version.id)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}

pub(super) async fn forget_last_good(transaction: &mut Transaction, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM last_good WHERE id = ?").bind(id).execute(&mut **transaction).await?;
    Ok(())
}

/// Reads the confirmed changes of guards.
pub(super) async fn confirmed(pool: &SqlitePool) -> Result<Vec<(String, Confirmed)>, sqlx::Error> {
    let rows = sqlx::query("SELECT plugin, what FROM confirmed").fetch_all(pool).await?;
    let read = |row: sqlx::sqlite::SqliteRow| {
        Ok((row.try_get("plugin")?, Confirmed::from(row.try_get::<String, _>("what")?)))
    };
    rows.into_iter().map(read).collect()
}

/// Writes down what an operator confirms of a guard.
pub(super) async fn confirm(
    transaction: &mut Transaction,
    id: &str,
    what: &Confirmed,
    by: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT OR REPLACE INTO confirmed (plugin, what, author, at) VALUES (?, ?, ?, ?)")
        .bind(id)
        .bind(what.as_str())
        .bind(by)
        .bind(now())
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Writes down that an operator switched a guard, or ends that.
pub(super) async fn confirm_switch(
    transaction: &mut Transaction,
    id: &str,
    enabled: Option<bool>,
    global: Option<bool>,
    by: &str,
) -> Result<(), sqlx::Error> {
    for (is_on, what) in [(enabled, Confirmed::Off), (global, Confirmed::Narrow)] {
        match is_on {
            Some(false) => confirm(transaction, id, &what, by).await?,
            Some(true) => {
                sqlx::query("DELETE FROM confirmed WHERE plugin = ? AND what = ?")
                    .bind(id)
                    .bind(what.as_str())
                    .execute(&mut **transaction)
                    .await?;
            }
            None => {}
        }
    }
    Ok(())
}

pub(super) async fn forget_confirmed(
    pool: &SqlitePool,
    id: &str,
    what: &Confirmed,
) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM confirmed WHERE plugin = ? AND what = ?")
        .bind(id)
        .bind(what.as_str())
        .execute(pool)
        .await?;
    Ok(())
}

/// Reads the guards of the histories whose last good versions are missing or are of no history.
pub(super) async fn doubted(pool: &SqlitePool) -> Result<Vec<(String, String, String)>, sqlx::Error> {
    let query = "SELECT own.plugin, own.place, sources.text FROM versions AS own
         JOIN sources ON sources.hash = own.source
         LEFT JOIN last_good ON last_good.id = own.plugin
         WHERE own.kind = 'filter'
         AND own.version = (SELECT max(version) FROM versions WHERE plugin = own.plugin)
         AND sources.text LIKE '%secur%'
         AND (last_good.id IS NULL
         OR CASE WHEN json_valid(last_good.imports) THEN json_type(last_good.imports) = 'null' ELSE 1 END
         OR NOT EXISTS (
             SELECT 1 FROM versions AS any JOIN sources AS known ON known.hash = any.source
             WHERE any.plugin = own.plugin AND known.text = last_good.source))";
    sqlx::query_as(query).fetch_all(pool).await
}

pub(super) async fn models(pool: &SqlitePool) -> Result<Vec<(String, String)>, sqlx::Error> {
    sqlx::query_as("SELECT plugin, model FROM guarded_models").fetch_all(pool).await
}

pub(super) async fn save_models(
    transaction: &mut Transaction,
    plugin: &str,
    models: &[String],
) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM guarded_models WHERE plugin = ?")
        .bind(plugin)
        .execute(&mut **transaction)
        .await?;
    for model in models {
        sqlx::query("INSERT OR IGNORE INTO guarded_models (plugin, model) VALUES (?, ?)")
            .bind(plugin)
            .bind(model)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}
