//! The settings that a host reads when it starts and whenever the generation changes, and their snapshot.

use super::database::Store;
#[cfg(feature = "postgres")]
use super::history;
use super::{grants, guards, keys, removed_plugin, script_sets, switches};
use crate::error::StoreResult;
use crate::rows::generation;
#[cfg(feature = "postgres")]
use crate::rows::kv;
use crate::settings::StoredSettings;
#[cfg(feature = "postgres")]
use crate::snapshot::Content;
use crate::sql::Session;
#[cfg(feature = "postgres")]
use std::time::Instant;

/// The settings of a host, and their snapshot.
impl Store {
    /// Returns the current generation. Read it *before* the data: a change in between then causes one more
    /// read, and is never missed.
    pub async fn generation(&self) -> StoreResult<u64> {
        self.look("read the store's generation", |snapshot| snapshot.settings.generation, async {
            generation::read(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Reads all settings of a host in one transaction.
    pub async fn settings(&self) -> StoreResult<StoredSettings> {
        self.read("read the stored settings of plugins", |snapshot| snapshot.settings.clone(), async {
            let mut session = self.swift.snapshot().await?;
            let read = self.all_settings(&mut session).await?;
            session.commit_with(read).await
        })
        .await
    }

    async fn all_settings(&self, session: &mut Session) -> sqlx::Result<StoredSettings> {
        Ok(StoredSettings {
            generation: generation::read(session).await?,
            valves: self.all_valves(session, true).await?,
            switches: switches::all(session).await?,
            grants: match grants::all(session).await {
                Err(sqlx::Error::Decode(error)) => {
                    tracing::warn!("cannot read the stored grants, which are ignored: {error}");
                    Vec::new()
                }
                read => read?,
            },
            confirmed: guards::confirmed(session).await?,
            last_good: guards::last_good(session).await?,
            aside: removed_plugin::all(session).await?,
            guarded_models: guards::models(session).await?,
            keys: keys::all(session).await?,
            scripts: script_sets::latest(session).await?,
        })
    }

    /// Writes the snapshot from which this host starts during an outage, if one is due and the host has
    /// applied the current generation. Returns `true` if it was written.
    pub async fn save_snapshot(&self, applied_generation: u64) -> StoreResult<bool> {
        #[cfg(feature = "postgres")]
        if let Some(availability) = self.availability()
            && availability.error().is_none()
            && let Some(local) = availability.local()
            && let Some(changes) = local.due(applied_generation)
        {
            let since = Instant::now();
            let content = self.work("read the store for a snapshot", async {
                let mut session = self.swift.snapshot().await?;
                // A host that has not applied the current generation writes no snapshot.
                let is_applied = generation::read(&mut session).await? == applied_generation;
                let content = if is_applied { Some(self.content(&mut session).await?) } else { None };
                session.commit_with(content).await
            });
            let Some(content) = content.await? else { return Ok(false) };
            local.save(content, changes, since).await?;
            return Ok(true);
        }
        #[cfg(not(feature = "postgres"))]
        let _ = applied_generation;
        Ok(false)
    }

    /// Reads the data that a host starts from.
    #[cfg(feature = "postgres")]
    async fn content(&self, session: &mut Session) -> sqlx::Result<Content> {
        let settings = self.all_settings(session).await?;
        let files = match &settings.scripts {
            Some(set) => script_sets::files(session, set.generation).await?,
            None => Vec::new(),
        };
        let (doubted, spans) = (guards::doubted(session).await?, history::spans(session).await?);
        Ok(Content { settings, files, doubted, spans, kv: kv::read(session).await? })
    }
}
