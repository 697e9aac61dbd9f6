//! The sealing key of a store, which is found or created when the store is opened, and verified with a proof.

use crate::error::{Place, StoreError, StoreErrorKind};
use crate::rows::sealed_value::{valves_of, version_of};
use crate::seal::{SHORTEST_KEY, SealKey, random_word};
use crate::sql::{Lock, Pool, Session, query, values};
use crate::sqlite::open::private_file;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use valvehouse_grants::SecretSource;

const DOING: &str = "open the store's secrets";
/// The subject that the proof is sealed for.
const PROOF: &str = "proof";

/// The source of a store's key.
#[derive(Clone, Copy)]
pub(crate) enum KeyFrom<'a> {
    /// The source that the settings name.
    Settings(&'a SecretSource),
    /// The file next to an SQLite store, which is created with it.
    Beside(&'a Path),
}

impl<'a> KeyFrom<'a> {
    /// Returns the source of an SQLite file's key.
    pub(crate) fn of_file(file: &'a Path, settings: Option<&'a SecretSource>) -> Self {
        settings.map_or(Self::Beside(file), Self::Settings)
    }
}

/// The text of a key, and the place that it was read from.
pub(crate) struct KeyText {
    text: String,
    origin: Place,
}

impl KeyText {
    /// Reads the key of a store.
    pub(crate) fn read(place: &Place, from: KeyFrom<'_>, is_sealed: bool) -> Result<Self, StoreError> {
        let (text, origin) = text(place, from, is_sealed)?;
        Ok(Self { text, origin })
    }

    /// Returns the key, or an error if it is too short.
    pub(crate) fn key(&self) -> Result<SealKey, StoreError> {
        SealKey::of(&self.text).ok_or_else(|| {
            let cause = format!("the key is shorter than {SHORTEST_KEY} characters");
            sealing_error(&self.origin, cause, "create a random one with `valvehouse key`")
        })
    }

    /// Returns the text of the key.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Checks that the values of a store with this proof are sealed with the key.
    pub(crate) fn opens(&self, proof: &str) -> Result<(), StoreError> {
        match self.key()?.open(proof, PROOF) {
            Some(_) => Ok(()),
            None => Err(sealing_error(
                &self.origin,
                "it is not the key that the values in the store are sealed with",
                MEND,
            )),
        }
    }

    /// Returns the key; `None` if a store with this proof is sealed with another key.
    #[cfg(feature = "postgres")]
    pub(crate) fn proven(&self, proof: &str) -> Result<Option<SealKey>, StoreError> {
        let key = self.key()?;
        let is_proven = key.open(proof, PROOF).is_some();
        Ok(is_proven.then_some(key))
    }
}

/// Returns the key of a store and its proof there. The first process that opens the store seals the values
/// that earlier versions stored as plain text.
pub(crate) async fn key(
    place: &Place,
    from: KeyFrom<'_>,
    pool: &Pool,
) -> Result<(SealKey, String), StoreError> {
    let failed = |error| StoreError::from_sqlx(DOING, place, &error);
    let proof = proof(pool).await.map_err(failed)?;
    let text = KeyText::read(place, from, proof.is_some())?;
    let key = text.key()?;
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
    text.opens(&proof)?;
    Ok((key, proof))
}

const MEND: &str = "set the correct key ([store] key, or the key file next to the store); if it is lost, the stored valves, logins, memories and vectors are lost too: `valvehouse store forget-valves` deletes them";

/// Returns the text of the key, and the place that it was read from.
fn text(place: &Place, from: KeyFrom<'_>, is_sealed: bool) -> Result<(String, Place), StoreError> {
    let source = match from {
        KeyFrom::Settings(source) => source,
        KeyFrom::Beside(store) => {
            let file = store.with_extension("key");
            return Ok((read_or_make(&file, is_sealed)?, Place::File(file)));
        }
    };
    let origin = match source {
        SecretSource::File(file) => Place::File(file.clone()),
        _ => place.clone(),
    };
    match source.read() {
        Ok(secret) => Ok((secret.expose().to_owned(), origin)),
        Err(unread) => Err(sealing_error(&origin, unread.to_string(), "or change [store] key")),
    }
}

/// Reads the key file next to the store, or creates it for a new store. It is never created again, because
/// another key could not open the stored values.
fn read_or_make(file: &Path, is_sealed: bool) -> Result<String, StoreError> {
    let place = &Place::File(file.to_owned());
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) => return Ok(text.trim().to_owned()),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StoreError::from_io("read the store's key", place, &error));
            }
            Err(_) if is_sealed => {
                return Err(sealing_error(
                    place,
                    "the key that the values in the store are sealed with is missing",
                    MEND,
                ));
            }
            // If two processes create it, the first one succeeds and both read the same key.
            Err(_) => {
                make(file).map_err(|error| StoreError::from_io("create the store's key", place, &error))?
            }
        }
    }
}

/// Creates a key file atomically, or keeps the one that another process created.
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

/// Reads the proof of a store's key; `None` if nothing is sealed yet.
pub(crate) async fn proof(pool: &Pool) -> Result<Option<String>, sqlx::Error> {
    query("SELECT proof FROM sealing").fetch_scalar_optional(&mut pool.session().await?).await
}

/// Writes the proof and seals all stored values, unless another process has just done so. Returns the proof,
/// and `true` if any value was sealed.
async fn begin_sealing(key: &SealKey, pool: &Pool) -> Result<(String, bool), sqlx::Error> {
    let mut transaction = pool.begin(Lock::Settings).await?;
    let written = query("SELECT proof FROM sealing").fetch_scalar_optional(&mut transaction).await?;
    if let Some(proof) = written {
        return Ok((proof, false));
    }
    let proof = key.seal(PROOF, PROOF);
    let insert = query("INSERT INTO sealing (only_row, proof) VALUES (1, ?)").bind(&proof);
    insert.execute(&mut transaction).await?;
    let sealed = seal_valves(key, &mut transaction).await? + seal_versions(key, &mut transaction).await?;
    transaction.commit().await?;
    Ok((proof, sealed > 0))
}

async fn seal_valves(key: &SealKey, transaction: &mut Session) -> Result<usize, sqlx::Error> {
    let rows = query("SELECT plugin, user_id, content FROM valves").fetch_all(transaction).await?;
    for row in &rows {
        let (plugin, user): (String, Option<String>) = (row.try_get("plugin")?, row.try_get("user_id")?);
        let sealed = key.seal(row.try_get("content")?, &valves_of(&plugin, user.as_deref()));
        let seal = query("UPDATE valves SET content = ? WHERE plugin = ? AND user_id IS NOT DISTINCT FROM ?");
        seal.bind_all(values![sealed, &plugin, &user]).execute(transaction).await?;
    }
    Ok(rows.len())
}

async fn seal_versions(key: &SealKey, transaction: &mut Session) -> Result<usize, sqlx::Error> {
    let rows = query("SELECT plugin, version, valves FROM versions").fetch_all(transaction).await?;
    for row in &rows {
        let (plugin, number): (String, i64) = (row.try_get("plugin")?, row.try_get("version")?);
        let sealed = key.seal(row.try_get("valves")?, &version_of(&plugin, number));
        let seal = query("UPDATE versions SET valves = ? WHERE plugin = ? AND version = ?");
        seal.bind_all(values![sealed, &plugin, number]).execute(transaction).await?;
    }
    Ok(rows.len())
}

/// Rewrites free pages that still contain unsealed values.
async fn forget_plain_words(pool: &Pool) {
    #[allow(irrefutable_let_patterns, reason = "the only one without the feature `postgres`")]
    let Pool::Sqlite(pool) = pool else { return };
    for work in ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"] {
        if let Err(error) = sqlx::raw_sql(work).execute(pool).await {
            tracing::warn!(
                "cannot clear unused parts of the store, which may still contain plaintext values: {error}"
            );
        }
    }
}

fn sealing_error(place: &Place, cause: impl Into<String>, help: &str) -> StoreError {
    StoreError { help: Some(help.to_owned()), ..StoreError::new(DOING, place, StoreErrorKind::Sealed, cause) }
}
