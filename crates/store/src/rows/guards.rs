//! The rows about guards: last good versions, confirmed changes, and the models that list them.

use super::json::{AT_ONCE, encode};
use crate::clock::now;
use crate::record::{GuardChange, LastGood};
use crate::sql::{Row, Session, insert, query};
use valvehouse_json::Json;

/// Reads the last good version of every script.
pub(crate) async fn last_good(session: &mut Session) -> Result<Vec<LastGood>, sqlx::Error> {
    let rows = query("SELECT id, path, hash, source, imports, security, saved_at FROM last_good ORDER BY id")
        .fetch_all(session)
        .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LastGood {
                id: row.try_get("id")?,
                path: row.try_get("path")?,
                hash: row.try_get("hash")?,
                source: row.try_get("source")?,
                // Without its imports it does not load, which is reported.
                imports: Json::parse(row.try_get::<String>("imports")?.as_bytes()).unwrap_or_default(),
                security: row.try_get("security")?,
                saved_at: row.try_get("saved_at")?,
            })
        })
        .collect()
}

/// Stores versions that loaded, each in place of the previous one.
pub(crate) async fn save_last_good(
    transaction: &mut Session,
    versions: &[LastGood],
) -> Result<(), sqlx::Error> {
    for versions in versions.chunks(AT_ONCE) {
        let imports =
            versions.iter().map(|version| encode(&version.imports)).collect::<Result<Vec<_>, _>>()?;
        let rows = versions.iter().zip(imports).map(|(version, imports)| {
            [
                (&version.id).into(),
                (&version.path).into(),
                (&version.hash).into(),
                (&version.source).into(),
                imports.into(),
                version.security.into(),
                version.saved_at.into(),
            ]
        });
        let head = "INSERT INTO last_good (id, path, hash, source, imports, security, saved_at)";
        let tail = "ON CONFLICT (id) DO UPDATE SET path = excluded.path, hash = excluded.hash,
             source = excluded.source, imports = excluded.imports, security = excluded.security,
             saved_at = excluded.saved_at";
        insert(head, rows, tail).execute(transaction).await?;
    }
    // Confirmations of an earlier version do not apply to this one.
    for version in versions.iter().filter(|version| version.security) {
        query("DELETE FROM confirmed WHERE plugin = ? AND what NOT IN ('off', 'narrow', 'configured')")
            .bind(&version.id)
            .execute(transaction)
            .await?;
    }
    Ok(())
}

pub(crate) async fn forget_last_good(transaction: &mut Session, id: &str) -> Result<(), sqlx::Error> {
    query("DELETE FROM last_good WHERE id = ?").bind(id).execute(transaction).await?;
    Ok(())
}

/// Reads the confirmed changes of guards.
pub(crate) async fn confirmed(session: &mut Session) -> Result<Vec<(String, GuardChange)>, sqlx::Error> {
    let rows = query("SELECT plugin, what FROM confirmed").fetch_all(session).await?;
    let read = |row: Row| Ok((row.try_get("plugin")?, GuardChange::from(row.try_get::<String>("what")?)));
    rows.into_iter().map(read).collect()
}

/// Stores an operator's confirmation of a guard's change.
pub(crate) async fn confirm(
    transaction: &mut Session,
    id: &str,
    what: &GuardChange,
    by: &str,
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO confirmed (plugin, what, author, at) VALUES (?, ?, ?, ?)
         ON CONFLICT (plugin, what) DO UPDATE SET author = excluded.author, at = excluded.at",
    )
    .bind(id)
    .bind(what.as_str())
    .bind(by)
    .bind(now())
    .execute(transaction)
    .await?;
    Ok(())
}

/// Stores that an operator switched a guard off, or deletes that confirmation.
pub(crate) async fn confirm_switch(
    transaction: &mut Session,
    id: &str,
    enabled: Option<bool>,
    global: Option<bool>,
    by: &str,
) -> Result<(), sqlx::Error> {
    for (is_on, what) in [(enabled, GuardChange::Off), (global, GuardChange::Narrow)] {
        match is_on {
            Some(false) => confirm(transaction, id, &what, by).await?,
            Some(true) => {
                query("DELETE FROM confirmed WHERE plugin = ? AND what = ?")
                    .bind(id)
                    .bind(what.as_str())
                    .execute(transaction)
                    .await?;
            }
            None => {}
        }
    }
    Ok(())
}

pub(crate) async fn forget_confirmed(
    session: &mut Session,
    id: &str,
    what: &GuardChange,
) -> Result<(), sqlx::Error> {
    query("DELETE FROM confirmed WHERE plugin = ? AND what = ?")
        .bind(id)
        .bind(what.as_str())
        .execute(session)
        .await?;
    Ok(())
}

/// Reads the guards of the histories whose last good versions are missing or not part of their histories.
pub(crate) async fn doubted(session: &mut Session) -> Result<Vec<(String, String, String)>, sqlx::Error> {
    let rows = query(
        "SELECT own.plugin, own.place, sources.text, last_good.id AS good, last_good.imports, EXISTS (
             SELECT 1 FROM versions AS other JOIN sources AS known ON known.hash = other.source
             WHERE other.plugin = own.plugin AND known.text = last_good.source) AS is_known
         FROM versions AS own JOIN sources ON sources.hash = own.source
         LEFT JOIN last_good ON last_good.id = own.plugin
         WHERE own.kind = 'filter'
         AND own.version = (SELECT max(version) FROM versions WHERE plugin = own.plugin)
         AND lower(sources.text) LIKE '%secur%'",
    )
    .fetch_all(session)
    .await?;
    let mut doubted = Vec::new();
    for row in rows {
        let imports: Option<String> = row.try_get("imports")?;
        let is_whole =
            imports.is_some_and(|text| Json::parse(text.as_bytes()).is_ok_and(|imports| !imports.is_null()));
        if row.try_get::<Option<String>>("good")?.is_none()
            || !is_whole
            || !row.try_get::<bool>("is_known")?
        {
            doubted.push((row.try_get("plugin")?, row.try_get("place")?, row.try_get("text")?));
        }
    }
    Ok(doubted)
}

pub(crate) async fn models(session: &mut Session) -> Result<Vec<(String, String)>, sqlx::Error> {
    let rows = query("SELECT plugin, model FROM guarded_models").fetch_all(session).await?;
    rows.iter().map(|row| Ok((row.try_get("plugin")?, row.try_get("model")?))).collect()
}

pub(crate) async fn save_models(
    transaction: &mut Session,
    plugin: &str,
    models: &[String],
) -> Result<(), sqlx::Error> {
    query("DELETE FROM guarded_models WHERE plugin = ?").bind(plugin).execute(transaction).await?;
    for model in models {
        query("INSERT INTO guarded_models (plugin, model) VALUES (?, ?) ON CONFLICT DO NOTHING")
            .bind(plugin)
            .bind(model)
            .execute(transaction)
            .await?;
    }
    Ok(())
}
