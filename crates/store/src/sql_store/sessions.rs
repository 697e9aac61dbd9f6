//! [`ClientSessions`] in an SQL database. Each method is one transaction. A power failure may lose the latest
//! sessions; their clients start new ones.

use super::database::SqlStore;
use crate::error::StoreFuture;
use crate::rows::sessions;
use crate::sessions::ClientSessions;
use crate::sql::Lock;

impl ClientSessions for SqlStore {
    fn save_session<'a>(&'a self, id: &'a str, content: &'a str, ends_ms: i64) -> StoreFuture<'a, ()> {
        self.work("store a session", async move {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            sessions::save(&mut transaction, &self.key, id, content, ends_ms).await?;
            transaction.commit().await
        })
    }

    fn session<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<String>> {
        self.work("read a session", async move {
            sessions::find(&mut self.swift.session().await?, &self.key, id).await
        })
    }

    fn end_session<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()> {
        self.work("end a session", async move { sessions::end(&mut self.swift.session().await?, id).await })
    }
}
