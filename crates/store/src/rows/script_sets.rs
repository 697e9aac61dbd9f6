//! The rows of script sets.

use super::generation::raise;
use super::json::AT_ONCE;
use crate::clock::now;
use crate::history::hash;
use crate::scripts::{MAX_SCRIPT_SETS, NewScriptSet, ScriptFile, ScriptSet};
use crate::sql::{Row, Session, insert, query, query_scalar};
use std::collections::BTreeMap;

fn read(row: &Row) -> Result<ScriptSet, sqlx::Error> {
    Ok(ScriptSet {
        generation: row.try_get::<i64>("generation")?.unsigned_abs(),
        at: row.try_get("at")?,
        by: row.try_get("author")?,
        manifest: row.try_get("manifest")?,
        signature: row.try_get("signature")?,
        restored_from: row.try_get::<Option<i64>>("restored_from")?.map(i64::unsigned_abs),
    })
}

fn number(generation: u64) -> i64 {
    i64::try_from(generation).unwrap_or(i64::MAX)
}

pub(crate) async fn all(session: &mut Session) -> Result<Vec<ScriptSet>, sqlx::Error> {
    let text = "SELECT generation, at, author, manifest, signature, restored_from FROM script_sets
        ORDER BY generation DESC";
    query(text).fetch_all(session).await?.iter().map(read).collect()
}

pub(crate) async fn latest(session: &mut Session) -> Result<Option<ScriptSet>, sqlx::Error> {
    let text = "SELECT generation, at, author, manifest, signature, restored_from FROM script_sets
        ORDER BY generation DESC LIMIT 1";
    query(text).fetch_optional(session).await?.as_ref().map(read).transpose()
}

pub(crate) async fn files(session: &mut Session, generation: u64) -> Result<Vec<ScriptFile>, sqlx::Error> {
    let text = "SELECT own.path, script_texts.text FROM script_set_files AS own
        JOIN script_texts ON script_texts.hash = own.hash WHERE own.generation = ? ORDER BY own.path";
    let rows = query(text).bind(number(generation)).fetch_all(session).await?;
    let file = |row: &Row| {
        let text: String = row.try_get("text")?;
        Ok(ScriptFile { path: row.try_get("path")?, text: text.into() })
    };
    rows.iter().map(file).collect()
}

pub(crate) async fn put(transaction: &mut Session, set: &NewScriptSet<'_>) -> Result<u64, sqlx::Error> {
    let generation = raise(transaction).await?;
    let texts: BTreeMap<String, &str> =
        set.files.iter().map(|file| (hash(&file.text), &*file.text)).collect();
    let texts: Vec<(String, &str)> = texts.into_iter().collect();
    for texts in texts.chunks(AT_ONCE) {
        let rows = texts.iter().map(|(hash, text)| [hash.into(), (*text).into()]);
        insert("INSERT INTO script_texts (hash, text)", rows, "ON CONFLICT (hash) DO NOTHING")
            .execute(transaction)
            .await?;
    }
    for files in set.files.chunks(AT_ONCE) {
        let rows = files
            .iter()
            .map(|file| [number(generation).into(), (&file.path).into(), hash(&file.text).into()]);
        insert("INSERT INTO script_set_files (generation, path, hash)", rows, "")
            .execute(transaction)
            .await?;
    }
    query(
        "INSERT INTO script_sets (generation, at, author, manifest, signature, restored_from)
         VALUES (?, ?, ?, ?, ?, NULL)",
    )
    .bind(number(generation))
    .bind(now())
    .bind(set.by)
    .bind(&set.manifest.text)
    .bind(set.signature)
    .execute(transaction)
    .await?;
    prune(transaction).await?;
    Ok(generation)
}

pub(crate) async fn restore(
    transaction: &mut Session,
    from: u64,
    by: &str,
) -> Result<Option<u64>, sqlx::Error> {
    let known = query("SELECT manifest FROM script_sets WHERE generation = ?").bind(number(from));
    if known.fetch_optional(transaction).await?.is_none() {
        return Ok(None);
    }
    let generation = raise(transaction).await?;
    query(
        "INSERT INTO script_set_files (generation, path, hash)
         SELECT CAST(?1 AS BIGINT), path, hash FROM script_set_files WHERE generation = ?2",
    )
    .bind(number(generation))
    .bind(number(from))
    .execute(transaction)
    .await?;
    query(
        "INSERT INTO script_sets (generation, at, author, manifest, signature, restored_from)
         SELECT CAST(?1 AS BIGINT), CAST(?2 AS BIGINT), CAST(?3 AS TEXT), manifest, signature, generation
         FROM script_sets WHERE generation = ?4",
    )
    .bind(number(generation))
    .bind(now())
    .bind(by)
    .bind(number(from))
    .execute(transaction)
    .await?;
    prune(transaction).await?;
    Ok(Some(generation))
}

/// Deletes the oldest sets, and texts that no other set contains.
async fn prune(transaction: &mut Session) -> Result<(), sqlx::Error> {
    let count: i64 = query_scalar("SELECT count(*) FROM script_sets").fetch_one(transaction).await?;
    let excess = count - number(MAX_SCRIPT_SETS);
    if excess <= 0 {
        return Ok(());
    }
    query(
        "DELETE FROM script_sets WHERE generation IN
         (SELECT generation FROM script_sets ORDER BY generation LIMIT ?)",
    )
    .bind(excess)
    .execute(transaction)
    .await?;
    for orphans in [
        "DELETE FROM script_set_files WHERE generation NOT IN (SELECT generation FROM script_sets)",
        "DELETE FROM script_texts WHERE hash NOT IN (SELECT hash FROM script_set_files)",
    ] {
        query(orphans).execute(transaction).await?;
    }
    Ok(())
}
