//! The kv entries of scripts.

use super::database::Store;
use crate::clock::now;
#[cfg(feature = "postgres")]
use crate::error::StoreErrorKind;
use crate::error::StoreResult;
use crate::record::{KvChange, KvNews, KvRow, alive};
use crate::rows::kv;
#[cfg(feature = "postgres")]
use crate::snapshot::Availability;
use crate::snapshot::Content;
use crate::sql::{Lock, Row, query, values};
use valvehouse_json::Json;

/// The kv entries of scripts.
impl Store {
    /// Returns all kv entries that have not expired, and deletes the others.
    pub async fn kv_all(&self) -> StoreResult<Vec<KvRow>> {
        #[cfg(feature = "postgres")]
        if let Some(local) = self.availability().and_then(Availability::local)
            && let Some(content) = local.cold()
        {
            return Ok(local.kv(&content).await);
        }
        self.work("read the kv entries of scripts", async { kv::all(&mut self.swift.session().await?).await })
            .await
    }

    /// Writes kv changes in order, all of them or none; they are durable when this returns. Additions apply
    /// to the stored values.
    pub async fn kv_write(&self, changes: &[KvChange]) -> StoreResult<()> {
        #[cfg(feature = "postgres")]
        if let Some(availability) = self.availability()
            && let Some(local) = availability.local()
        {
            if availability.append(changes).await? {
                return Ok(());
            }
            return match self.write_kv(changes).await {
                Ok(()) => {
                    local.kv_changed();
                    Ok(())
                }
                // The changes may have reached the database and are then written again. That does not
                // alter values, but an addition may count twice.
                Err(error) if error.kind == StoreErrorKind::Unreachable => {
                    let is_written = availability.is_away().await && availability.append(changes).await?;
                    if is_written { Ok(()) } else { Err(error) }
                }
                Err(error) => Err(error),
            };
        }
        self.write_kv(changes).await
    }

    async fn write_kv(&self, changes: &[KvChange]) -> StoreResult<()> {
        self.work("write the kv entries of scripts", async {
            if kv::is_one_statement(changes) {
                // A single statement needs no explicit transaction, which takes a third of the time.
                let insert = async || kv::insert(&mut self.durable.session().await?, changes).await;
                return self.queued(insert).await;
            }
            let are_merged = kv::are_merged(changes);
            let mut transaction = self.begin(if are_merged { Lock::Kv } else { Lock::Nothing }).await?;
            match are_merged {
                true => kv::write_merged(&mut transaction, changes).await?,
                false => kv::write(&mut transaction, changes).await?,
            }
            transaction.commit().await
        })
        .await
    }

    /// Makes a kv change if the stored entry equals `before`, whose value null stands for no entry. Otherwise
    /// returns the stored entry. A change that was made is durable.
    pub async fn kv_swap(&self, before: &KvRow, change: &KvChange) -> StoreResult<Option<KvRow>> {
        self.work("change what scripts keep", async {
            let swap = async || {
                let mut transaction = self.durable.begin(Lock::Kv).await?;
                // The entry is locked until the transaction ends.
                let stored = kv::stored(&mut transaction, &[change.place()]).await?.into_values().next();
                let none = || KvRow { value: Json::Null, expires_at: None, ..before.clone() };
                let other = Some(stored.unwrap_or_else(none)).filter(|stored| stored != before);
                if other.is_none() {
                    kv::write(&mut transaction, std::slice::from_ref(change)).await?;
                }
                transaction.commit_with(other).await
            };
            let other = self.queued(swap).await?;
            #[cfg(feature = "postgres")]
            if let Some(local) = self.availability().and_then(Availability::local) {
                local.kv_changed();
            }
            Ok(other)
        })
        .await
    }

    /// Returns the kv entries that hosts changed since a mark of the previous call, and the generation; all
    /// entries for 0. Changes that were in progress at the mark are returned again. A store that is not shared
    /// returns none.
    pub async fn kv_news(&self, since: u64) -> StoreResult<KvNews> {
        let of_snapshot =
            |snapshot: &Content| KvNews { generation: snapshot.settings.generation, ..KvNews::default() };
        self.look("read the kv entries of other hosts", of_snapshot, async {
            if !self.is_shared() {
                return Ok(KvNews::default());
            }
            // The mark is read before the rows, if those are read by another statement. Concurrent changes are
            // part of the next call at the latest.
            let text = "SELECT generation, txid_snapshot_xmin(txid_current_snapshot()) AS mark,
                    (SELECT count(*) FROM hosts WHERE seen_at >= ?) AS hosts,
                    news.plugin AS plugin, news.scope AS scope, news.key AS key, value, expires_at
                 FROM store LEFT JOIN kv_changes AS news ON news.changed >= ?
                    LEFT JOIN kv ON kv.plugin = news.plugin AND kv.scope = news.scope AND kv.key = news.key";
            let query = query(text).bind_all(values![alive(), if since == 0 { u64::MAX } else { since }]);
            let mut session = self.swift.session().await?;
            let rows = query.fetch_all(&mut session).await?;
            let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            let (generation, mark, hosts) =
                (first.count("generation")?, first.count("mark")?, first.count("hosts")?);
            let rows = match since {
                0 => kv::all(&mut session).await?,
                _ => rows.iter().filter_map(|row| news(row).transpose()).collect::<sqlx::Result<_>>()?,
            };
            Ok(KvNews { generation, mark, hosts, rows })
        })
        .await
    }

    /// Deletes expired entries, and change records that no host needs.
    pub async fn kv_clear(&self) -> StoreResult<()> {
        self.work("delete expired kv entries", async {
            if self.is_shared() {
                let mut session = self.swift.session().await?;
                query("DELETE FROM kv WHERE expires_at <= ?").bind(now()).execute(&mut session).await?;
                let read = "DELETE FROM kv_changes WHERE at < now() - interval '1 hour'";
                query(read).execute(&mut session).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Reads a changed entry; `None` for the row of a read without changes.
fn news(row: &Row) -> sqlx::Result<Option<KvRow>> {
    let Some(plugin) = row.try_get::<Option<String>>("plugin")? else { return Ok(None) };
    let value: Option<&str> = row.try_get("value")?;
    Ok(Some(KvRow {
        plugin,
        scope: row.try_get("scope")?,
        key: row.try_get("key")?,
        value: value.and_then(|value| Json::parse(value.as_bytes()).ok()).into(),
        expires_at: row.try_get("expires_at")?,
    }))
}
