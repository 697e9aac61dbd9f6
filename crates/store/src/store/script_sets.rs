//! The sets of scripts in the store.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::history::hash;
use crate::rows::generation::raise;
use crate::rows::json::AT_ONCE;
use crate::scripts::{MAX_SCRIPT_SETS, NewScriptSet, ScriptFile, ScriptSet};
use crate::sql::{Lock, Row, Session, insert, query, query_text, values};
use std::collections::BTreeMap;

/// The sets of scripts in the store.
impl Store {
    /// Returns the sets, newest first.
    pub async fn script_sets(&self) -> StoreResult<Vec<ScriptSet>> {
        self.work("list the stored scripts", async { select(&mut self.swift.session().await?, "").await })
            .await
    }

    /// Returns the files of a generation's set, sorted by path.
    pub async fn script_files(&self, generation: u64) -> StoreResult<Vec<ScriptFile>> {
        // A snapshot has only the files of its own generation.
        self.read("read the stored scripts", |snapshot| snapshot.files.clone(), async {
            files(&mut self.swift.session().await?, generation).await
        })
        .await
    }

    /// Stores a set completely or not at all, and returns its generation.
    pub async fn put_script_set(&self, set: &NewScriptSet<'_>) -> StoreResult<u64> {
        self.work("store scripts", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let generation = raise(&mut transaction).await?;
            let texts: BTreeMap<String, &str> =
                set.files.iter().map(|file| (hash(&file.text), &*file.text)).collect();
            let texts: Vec<(String, &str)> = texts.into_iter().collect();
            for texts in texts.chunks(AT_ONCE) {
                let rows = texts.iter().map(|(hash, text)| values![hash, *text]);
                let tail = "ON CONFLICT (hash) DO NOTHING";
                let insert = insert("INSERT INTO script_texts (hash, text)", rows, tail);
                insert.execute(&mut transaction).await?;
            }
            for files in set.files.chunks(AT_ONCE) {
                let rows = files.iter().map(|file| values![generation, &file.path, hash(&file.text)]);
                let insert = insert("INSERT INTO script_set_files (generation, path, hash)", rows, "");
                insert.execute(&mut transaction).await?;
            }
            let put = "INSERT INTO script_sets (generation, at, author, manifest, signature, restored_from)
                 VALUES (?, ?, ?, ?, ?, NULL)";
            let values = values![generation, now(), set.by, &set.manifest.text, set.signature];
            query(put).bind_all(values).execute(&mut transaction).await?;
            prune(&mut transaction).await?;
            transaction.commit_with(generation).await
        })
        .await
    }

    /// Stores the files and the signature of an earlier set as a new set, and returns its generation; `None`
    /// if the earlier set does not exist.
    pub async fn restore_script_set(&self, generation: u64, by: &str) -> StoreResult<Option<u64>> {
        let from = generation;
        self.work("store scripts", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let known = query("SELECT manifest FROM script_sets WHERE generation = ?").bind(from);
            if known.fetch_optional(&mut transaction).await?.is_none() {
                return Ok(None);
            }
            let generation = raise(&mut transaction).await?;
            let files = "INSERT INTO script_set_files (generation, path, hash)
                 SELECT CAST(?1 AS BIGINT), path, hash FROM script_set_files WHERE generation = ?2";
            query(files).bind_all(values![generation, from]).execute(&mut transaction).await?;
            let set = "INSERT INTO script_sets (generation, at, author, manifest, signature, restored_from)
                 SELECT CAST(?1 AS BIGINT), CAST(?2 AS BIGINT), CAST(?3 AS TEXT), manifest, signature, generation
                 FROM script_sets WHERE generation = ?4";
            let values = values![generation, now(), by, from];
            query(set).bind_all(values).execute(&mut transaction).await?;
            prune(&mut transaction).await?;
            transaction.commit_with(Some(generation)).await
        })
        .await
    }
}

async fn select(session: &mut Session, limit: &str) -> sqlx::Result<Vec<ScriptSet>> {
    let set = |row: Row| {
        Ok(ScriptSet {
            generation: row.count("generation")?,
            at: row.try_get("at")?,
            by: row.try_get("author")?,
            manifest: row.try_get("manifest")?,
            signature: row.try_get("signature")?,
            restored_from: row.try_get::<Option<i64>>("restored_from")?.map(i64::unsigned_abs),
        })
    };
    let text = format!(
        "SELECT generation, at, author, manifest, signature, restored_from FROM script_sets
         ORDER BY generation DESC {limit}"
    );
    query_text(text).fetch_all(session).await?.into_iter().map(set).collect()
}

/// Reads the latest set.
pub(super) async fn latest(session: &mut Session) -> sqlx::Result<Option<ScriptSet>> {
    Ok(select(session, "LIMIT 1").await?.pop())
}

/// Reads the files of a generation's set.
pub(super) async fn files(session: &mut Session, generation: u64) -> sqlx::Result<Vec<ScriptFile>> {
    let file = |row: Row| {
        let text: String = row.try_get("text")?;
        Ok(ScriptFile { path: row.try_get("path")?, text: text.into() })
    };
    let text = "SELECT own.path, script_texts.text FROM script_set_files AS own
        JOIN script_texts ON script_texts.hash = own.hash WHERE own.generation = ? ORDER BY own.path";
    query(text).bind(generation).fetch_all(session).await?.into_iter().map(file).collect()
}

/// Deletes the oldest sets, and texts that no other set contains.
async fn prune(transaction: &mut Session) -> sqlx::Result<()> {
    let count: i64 = query("SELECT count(*) FROM script_sets").fetch_scalar(transaction).await?;
    let excess = count.unsigned_abs().saturating_sub(MAX_SCRIPT_SETS);
    if excess == 0 {
        return Ok(());
    }
    let oldest = "DELETE FROM script_sets WHERE generation IN
         (SELECT generation FROM script_sets ORDER BY generation LIMIT ?)";
    query(oldest).bind(excess).execute(transaction).await?;
    for orphans in [
        "DELETE FROM script_set_files WHERE generation NOT IN (SELECT generation FROM script_sets)",
        "DELETE FROM script_texts WHERE hash NOT IN (SELECT hash FROM script_set_files)",
    ] {
        query(orphans).execute(transaction).await?;
    }
    Ok(())
}
