//! The hosts of the store. A power failure may lose their latest records.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::record::{HOST_SILENCE, HostSeen, alive};
use crate::rows::json::encode;
use crate::sql::{Lock, Row, query, values};
use valvehouse_json::Json;

/// The hosts of the store.
impl Store {
    /// Records a heartbeat of a host with the generation that it has applied, and its status if that changed.
    pub async fn announce(
        &self,
        host_id: &str,
        pid: u32,
        applied_generation: u64,
        tells: Option<&Json>,
    ) -> StoreResult<()> {
        self.work("announce this host", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            let tells = tells.map(encode).transpose()?;
            // Killed hosts do not deregister; their rows are deleted after this time.
            let gone = query("DELETE FROM hosts WHERE seen_at < ?")
                .bind(now() - 12 * HOST_SILENCE.as_millis() as i64);
            gone.execute(&mut transaction).await?;
            let put = "INSERT INTO hosts (host_id, pid, applied_generation, seen_at, tells)
                 VALUES (?1, ?2, ?3, ?4, COALESCE(?5, '{}'))
                 ON CONFLICT (host_id) DO UPDATE SET
                 pid = ?2, applied_generation = ?3, seen_at = ?4, tells = COALESCE(?5, hosts.tells)";
            let values = values![host_id, pid, applied_generation, now(), tells];
            query(put).bind_all(values).execute(&mut transaction).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the hosts with a heartbeat within [`HOST_SILENCE`].
    pub async fn hosts(&self) -> StoreResult<Vec<HostSeen>> {
        let host = |row: &Row| {
            Ok(HostSeen {
                host_id: row.try_get("host_id")?,
                pid: u32::try_from(row.try_get::<i64>("pid")?).unwrap_or_default(),
                applied_generation: row.count("applied_generation")?,
                // A host of another version may report a different format, which is ignored.
                tells: Json::parse(row.try_get::<&str>("tells")?.as_bytes()).ok().into(),
                seen_at: row.try_get("seen_at")?,
            })
        };
        let text = "SELECT host_id, pid, applied_generation, tells, seen_at FROM hosts
             WHERE seen_at >= ? ORDER BY host_id";
        self.fetch("list running hosts", query(text).bind(alive()), host).await
    }

    /// Deregisters a host, and deletes its questions.
    pub async fn leave(&self, host_id: &str) -> StoreResult<()> {
        self.work("deregister from the store", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            for text in ["DELETE FROM questions WHERE host_id = ?", "DELETE FROM hosts WHERE host_id = ?"] {
                query(text).bind(host_id).execute(&mut transaction).await?;
            }
            transaction.commit().await
        })
        .await
    }
}
