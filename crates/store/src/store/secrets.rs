//! Sealed texts that hosts store, and the leases of the hosts that change them.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::sql::{Lock, query, values};

/// Secrets of hosts.
impl Store {
    /// Seals a text for a subject; only this store can open it.
    pub fn seal(&self, text: &str, about: &str) -> String {
        self.key.seal(text, about)
    }

    /// Opens a text that [`Store::seal`] sealed for this subject; `None` for any other text.
    pub fn unseal(&self, sealed: &str, about: &str) -> Option<String> {
        self.key.open(sealed, about)
    }

    /// Returns the sealed text stored under this name, opened; `None` if there is none.
    pub async fn secret(&self, name: &str) -> StoreResult<Option<String>> {
        let query = query("SELECT content FROM secrets WHERE name = ?").bind(name);
        let content: Option<String> =
            self.fetch("read a secret of this host", query, |row| row.first()).await?.pop();
        // A text that was changed by hand cannot be opened.
        Ok(content.and_then(|content| self.key.open(&content, &subject(name))))
    }

    /// Seals a text and stores it under this name, replacing the previous one; `None` deletes it.
    pub async fn set_secret(&self, name: &str, text: Option<&str>) -> StoreResult<()> {
        let change = match text {
            None => query("DELETE FROM secrets WHERE name = ?").bind(name),
            Some(text) => {
                let put = "INSERT INTO secrets (name, content) VALUES (?, ?)
                     ON CONFLICT (name) DO UPDATE SET content = excluded.content";
                query(put).bind_all(values![name, self.key.seal(text, &subject(name))])
            }
        };
        self.execute_durably("store a secret of this host", change).await.map(drop)
    }

    /// Takes or extends the lease of a name for this number of milliseconds; 0 releases it. Returns `false`
    /// while another holder has it. Leases do not affect other methods.
    pub async fn lease_secret(&self, name: &str, holder: &str, ms: u32) -> StoreResult<bool> {
        self.work("take the lease of a secret", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let now = now();
            let free = "DELETE FROM secret_leases WHERE name = ? AND (holder = ? OR expires_ms <= ?)";
            query(free).bind_all(values![name, holder, now]).execute(&mut transaction).await?;
            if ms == 0 {
                return transaction.commit_with(true).await;
            }
            let take = "INSERT INTO secret_leases (name, holder, expires_ms) VALUES (?, ?, ?)
                 ON CONFLICT (name) DO NOTHING";
            let values = values![name, holder, now + i64::from(ms)];
            let taken = query(take).bind_all(values).execute(&mut transaction).await?;
            transaction.commit_with(taken > 0).await
        })
        .await
    }
}

/// Returns the subject that a text is sealed for, so that it opens under no other name.
pub(crate) fn subject(name: &str) -> String {
    format!("secret {name:?}")
}
