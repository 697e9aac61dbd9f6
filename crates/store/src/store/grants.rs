//! The stored grants of plugins and native tools.

use super::database::Store;
use crate::error::StoreResult;
use crate::history::Action;
use crate::rows::generation::commit_raised;
use crate::rows::json::encode;
use crate::sql::{Lock, Row, Session, query, values};
use valvehouse_json::Json;

/// The stored grants of plugins and native tools.
impl Store {
    /// Returns the stored grants: the id of a plugin or native tool, and an object of capabilities, not
    /// validated.
    pub async fn grants(&self) -> StoreResult<Vec<(String, Json)>> {
        self.work("read the stored grants", async { all(&mut self.swift.session().await?).await }).await
    }

    /// Replaces the expected grants with these; `None` revokes all. Returns `None` and changes nothing if the
    /// stored grants are not the expected ones, so that no concurrent revocation is lost.
    pub async fn set_grants(
        &self,
        id: &str,
        grants: Option<&Json>,
        expected: Option<&Json>,
        by: &str,
    ) -> StoreResult<Option<u64>> {
        self.work("store grants", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            match grants {
                // Revoking everything is always allowed, even if the stored grants cannot be read.
                None => {
                    query("DELETE FROM grants WHERE id = ?").bind(id).execute(&mut transaction).await?;
                }
                Some(grants) => {
                    if grants.as_object().is_none() {
                        let cause = "invalid grants: expected an object of capabilities";
                        return Err(sqlx::Error::Encode(cause.into()));
                    }
                    let stored = query("SELECT content FROM grants WHERE id = ?").bind(id);
                    let stored: Option<String> = stored.fetch_scalar_optional(&mut transaction).await?;
                    let stored = stored.map(|content| read(id, &content)).transpose()?;
                    if stored.as_ref() != expected {
                        return Ok(None);
                    }
                    let put = "INSERT INTO grants (id, content) VALUES (?, ?)
                         ON CONFLICT (id) DO UPDATE SET content = excluded.content";
                    query(put).bind_all(values![id, encode(grants)?]).execute(&mut transaction).await?;
                }
            }
            self.note(&mut transaction, id, by, Action::Grant).await?;
            commit_raised(transaction).await.map(Some)
        })
        .await
    }
}

pub(super) async fn all(session: &mut Session) -> sqlx::Result<Vec<(String, Json)>> {
    let grants = |row: Row| {
        let id: String = row.try_get("id")?;
        let grants = read(&id, row.try_get("content")?)?;
        Ok((id, grants))
    };
    let query = query("SELECT id, content FROM grants WHERE id NOT LIKE '%@%' ORDER BY id");
    query.fetch_all(session).await?.into_iter().map(grants).collect()
}

fn read(id: &str, content: &str) -> sqlx::Result<Json> {
    Json::parse(content.as_bytes()).map_err(|error| {
        let what = format!("the stored grants of {id} are not JSON: {error}");
        sqlx::Error::Decode(format!("{what}; delete them with `valvehouse grant {id} --revoke`").into())
    })
}
