//! The key that seals what people set: found or made when the store is opened, and proven to be the one.

use super::open::private_file;
use super::transaction::{Transaction, begin, encode};
use crate::error::{StoreError, Trouble};
use crate::seal::{SHORTEST_KEY, SealKey, is_sealed, random_word};
use sqlx::{Row as _, SqlitePool};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use valvehouse_config::SecretSource;
use valvehouse_json::Json;

const DOING: &str = "open the store's secrets";
/// What the proof says it is about.
const PROOF: &str = "proof";

/// What a value is about, so that it opens nowhere else: the operators' or one user's valves of a plugin,
pub(super) fn valves_of(plugin: &str, user: Option<&str>) -> String {
    format!("valves {plugin:?} {user:?}")
}

/// or those of a version of it.
pub(super) fn version_of(plugin: &str, number: i64) -> String {
    format!("version {plugin:?} {number}")
}

/// A value as it is written.
pub(super) fn seal(key: &SealKey, value: &Json, about: &str) -> Result<String, sqlx::Error> {
    Ok(key.seal(&encode(value)?, about))
}

/// A value as it was written; why not, where it does not open.
pub(super) fn unseal(key: &SealKey, content: &str, about: &str) -> Result<Json, String> {
    // Somebody's own hand may have put it there in plain words.
    let plain = match is_sealed(content) {
        true => key.open(content, about).ok_or("cannot be opened: they were changed by hand")?,
        false => content.to_owned(),
    };
    Json::parse(plain.as_bytes()).map_err(|error| format!("are no JSON: {error}"))
}

/// The key of a store. The first one who opens it seals what earlier versions left in plain words.
pub(super) async fn key(
    file: &Path,
    source: Option<&SecretSource>,
    pool: &SqlitePool,
) -> Result<SealKey, StoreError> {
    let failed = |error| StoreError::from_sqlx(DOING, file, &error);
    let proof: Option<String> = proof(pool).await.map_err(failed)?;
    let (text, place) = text(file, source, proof.is_some())?;
    let key = SealKey::of(&text).ok_or_else(|| {
        let cause = format!("the key is shorter than {SHORTEST_KEY} letters");
        told(&place, cause, "`valvehouse key` makes one that nobody guesses")
    })?;
    let proof = match proof {
        Some(proof) => proof,
        None => {
            let (proof, sealed) = begin_sealing(&key, pool).await.map_err(failed)?;
            if sealed {
                forget_plain_words(pool).await;
            }
            proof
        }
    };
    match key.open(&proof, PROOF) {
        Some(_) => Ok(key),
        None => Err(told(&place, "it is not the key that the values in the store are sealed with", MEND)),
    }
}

const MEND: &str = "give the right one ([store] key, or the key file beside the store); if it is lost, so are the stored \
     valves: `valvehouse store forget-valves` drops them and all else stays";

/// The text of the key, and where it is from.
fn text(
    file: &Path,
    source: Option<&SecretSource>,
    is_sealed: bool,
) -> Result<(String, PathBuf), StoreError> {
    let Some(source) = source else {
        let beside = file.with_extension("key");
        let text = read_or_make(&beside, is_sealed)?;
        return Ok((text, beside));
    };
    let place = match source {
        SecretSource::File(file) => file.clone(),
        _ => file.to_owned(),
    };
    match source.read() {
        Ok(secret) => Ok((secret.expose().to_owned(), place)),
        Err(unread) => Err(told(&place, unread.to_string(), "or change [store] key")),
    }
}

/// The key file beside the store. It is made with the first store and never again: another key would not open
/// what is there.
fn read_or_make(file: &Path, is_sealed: bool) -> Result<String, StoreError> {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) => return Ok(text.trim().to_owned()),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StoreError::from_io("read the store's key", file, &error));
            }
            Err(_) if is_sealed => {
                return Err(told(
                    file,
                    "the key that the values in the store are sealed with is not there",
                    MEND,
                ));
            }
            // Whoever is first makes it; then both read the same.
            Err(_) => {
                make(file).map_err(|error| StoreError::from_io("make the store's key", file, &error))?
            }
        }
    }
}

/// Makes a whole key file at once, or leaves the one that somebody else made.
fn make(file: &Path) -> io::Result<()> {
    let beside = file.with_extension(format!("key-{}", &random_word()[..12]));
    let made = (|| {
        let mut new = private_file().open(&beside)?;
        writeln!(new, "{}", random_word())?;
        new.sync_all()?;
        match std::fs::hard_link(&beside, file) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    })();
    let removed = std::fs::remove_file(&beside);
    made.and(removed)
}

async fn proof(pool: &SqlitePool) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("SELECT proof FROM sealing").fetch_optional(pool).await
}

/// Writes the proof and seals all that is there, unless another process did so just now. Whether there was
/// anything.
async fn begin_sealing(key: &SealKey, pool: &SqlitePool) -> Result<(String, bool), sqlx::Error> {
    let mut transaction = begin(pool).await?;
    let written: Option<String> =
        sqlx::query_scalar("SELECT proof FROM sealing").fetch_optional(&mut *transaction).await?;
    if let Some(proof) = written {
        return Ok((proof, false));
    }
    let proof = key.seal(PROOF, PROOF);
    sqlx::query("INSERT INTO sealing VALUES (1, ?)").bind(&proof).execute(&mut *transaction).await?;
    let sealed = seal_valves(key, &mut transaction).await? + seal_versions(key, &mut transaction).await?;
    transaction.commit().await?;
    Ok((proof, sealed > 0))
}

async fn seal_valves(key: &SealKey, transaction: &mut Transaction) -> Result<usize, sqlx::Error> {
    let rows = sqlx::query("SELECT rowid, plugin, user_id, content FROM valves")
        .fetch_all(&mut **transaction)
        .await?;
    for row in &rows {
        let (plugin, user): (String, Option<String>) = (row.try_get("plugin")?, row.try_get("user_id")?);
        let sealed = key.seal(row.try_get("content")?, &valves_of(&plugin, user.as_deref()));
        sqlx::query("UPDATE valves SET content = ? WHERE rowid = ?")
            .bind(sealed)
            .bind(row.try_get::<i64, _>("rowid")?)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(rows.len())
}

async fn seal_versions(key: &SealKey, transaction: &mut Transaction) -> Result<usize, sqlx::Error> {
    let rows = sqlx::query("SELECT rowid, plugin, version, valves FROM versions")
        .fetch_all(&mut **transaction)
        .await?;
    for row in &rows {
        let (plugin, number): (String, i64) = (row.try_get("plugin")?, row.try_get("version")?);
        let sealed = key.seal(row.try_get("valves")?, &version_of(&plugin, number));
        sqlx::query("UPDATE versions SET valves = ? WHERE rowid = ?")
            .bind(sealed)
            .bind(row.try_get::<i64, _>("rowid")?)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(rows.len())
}

/// What was in plain words is still in pages that are free now: they are written anew.
async fn forget_plain_words(pool: &SqlitePool) {
    for work in ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"] {
        if let Err(error) = sqlx::raw_sql(work).execute(pool).await {
            tracing::warn!("unused parts of the store may still hold values in plain words: {error}");
        }
    }
}

fn told(place: &Path, cause: impl Into<String>, mend: &str) -> StoreError {
    StoreError { mend: Some(mend.to_owned()), ..StoreError::new(DOING, place, Trouble::Sealed, cause) }
}
