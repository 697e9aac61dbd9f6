//! Client sessions. Each method is one transaction. A power failure may lose the latest
//! sessions; their clients start new ones.

use super::database::Store;
use crate::error::StoreResult;
use crate::rows::sessions;
use crate::sql::Lock;

/// Client sessions, sealed. Expired ones are not returned, and are deleted by later writes.
impl Store {
    /// Stores a session, replacing one with the same id. It expires at a time in milliseconds since 1970.
    pub async fn save_session(&self, id: &str, content: &str, ends_ms: i64) -> StoreResult<()> {
        self.work("store a session", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            sessions::save(&mut transaction, &self.key, id, content, ends_ms).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns a session that has not expired.
    pub async fn session(&self, id: &str) -> StoreResult<Option<String>> {
        self.work("read a session", async {
            sessions::find(&mut self.swift.session().await?, &self.key, id).await
        })
        .await
    }

    /// Deletes the session with this id, if any.
    pub async fn end_session(&self, id: &str) -> StoreResult<()> {
        self.work("end a session", async { sessions::end(&mut self.swift.session().await?, id).await }).await
    }
}
