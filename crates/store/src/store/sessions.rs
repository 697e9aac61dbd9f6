//! Client sessions that any host of the store can continue. A power failure may lose the latest ones; their
//! clients start new ones.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::sql::{Lock, query, values};

/// Client sessions, sealed. Expired ones are not returned, and are deleted by later writes.
impl Store {
    /// Stores a session, replacing one with the same id. It expires at a time in milliseconds since 1970.
    pub async fn save_session(&self, id: &str, content: &str, ends_ms: i64) -> StoreResult<()> {
        self.work("store a session", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            let expired = query("DELETE FROM client_sessions WHERE ends_at <= ?").bind(now());
            expired.execute(&mut transaction).await?;
            let text = "INSERT INTO client_sessions (id, content, ends_at) VALUES (?, ?, ?)
                 ON CONFLICT (id) DO UPDATE SET content = excluded.content, ends_at = excluded.ends_at";
            let values = values![id, self.key.seal(content, &subject(id)), ends_ms];
            query(text).bind_all(values).execute(&mut transaction).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns a session that has not expired.
    pub async fn session(&self, id: &str) -> StoreResult<Option<String>> {
        let query = query("SELECT content FROM client_sessions WHERE id = ? AND ends_at > ?");
        let query = query.bind_all(values![id, now()]);
        let content: Option<String> = self.fetch("read a session", query, |row| row.first()).await?.pop();
        // A session that was changed by hand cannot be opened.
        Ok(content.and_then(|content| self.key.open(&content, &subject(id))))
    }

    /// Deletes the session with this id, if any.
    pub async fn end_session(&self, id: &str) -> StoreResult<()> {
        let delete = query("DELETE FROM client_sessions WHERE id = ?").bind(id);
        self.execute("end a session", delete).await.map(drop)
    }
}

/// Returns the subject that a session is sealed for, so that it opens under no other id.
fn subject(id: &str) -> String {
    format!("client session {id:?}")
}
