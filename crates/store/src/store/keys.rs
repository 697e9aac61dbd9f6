//! The keys that operators handed out.

use super::database::Store;
use crate::error::StoreResult;
use crate::record::StoredKey;
use crate::rows::generation::commit_raised;
use crate::rows::json::encode;
use crate::sql::{Lock, Row, Session, query, values};
use valvehouse_json::Json;

/// The keys that operators handed out.
impl Store {
    /// Returns all keys by name, revoked ones included.
    pub async fn keys(&self) -> StoreResult<Vec<StoredKey>> {
        self.work("read the keys", async { all(&mut self.swift.session().await?).await }).await
    }

    /// Stores a key and returns the new generation. `None` if the key with this name does not have the expected
    /// digest: another operator has changed it, or, with `None`, has created it.
    pub async fn put_key(&self, key: &StoredKey, expected: Option<&str>) -> StoreResult<Option<u64>> {
        let StoredKey { name, digest, rights, .. } = key;
        self.work("store a key", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let put = match expected {
                Some(expected) => {
                    let put = "UPDATE keys SET digest = ?, rights = ? WHERE name = ? AND digest = ?";
                    query(put).bind_all(values![digest, encode(rights)?, name, expected])
                }
                None => {
                    let put = "INSERT INTO keys (name, digest, rights) VALUES (?, ?, ?)
                         ON CONFLICT (name) DO NOTHING";
                    query(put).bind_all(values![name, digest, encode(rights)?])
                }
            };
            if put.execute(&mut transaction).await? == 0 {
                return Ok(None);
            }
            commit_raised(transaction).await.map(Some)
        })
        .await
    }

    /// Records the last use of a key, in milliseconds since 1970.
    pub async fn record_key_use(&self, name: &str, at: i64) -> StoreResult<()> {
        let put = "UPDATE keys SET used_at = ? WHERE name = ? AND (used_at IS NULL OR used_at < ?)";
        let put = query(put).bind_all(values![at, name, at]);
        self.execute("record the use of a key", put).await.map(drop)
    }
}

pub(super) async fn all(session: &mut Session) -> sqlx::Result<Vec<StoredKey>> {
    let key = |row: Row| {
        let name: String = row.try_get("name")?;
        let rights: String = row.try_get("rights")?;
        // Rights that were changed by hand and cannot be read allow nothing.
        let rights = Json::parse(rights.as_bytes()).unwrap_or(Json::Null);
        Ok(StoredKey { name, digest: row.try_get("digest")?, rights, used_at: row.try_get("used_at")? })
    };
    let query = query("SELECT name, digest, rights, used_at FROM keys ORDER BY name");
    query.fetch_all(session).await?.into_iter().map(key).collect()
}
