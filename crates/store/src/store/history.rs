//! The histories of plugins. Each method is one transaction.

use super::database::Store;
use crate::error::StoreResult;
use crate::history::{Edit, SeenFile, Span, Version};
use crate::rows::generation::raise;
use crate::rows::history;
use crate::sql::Lock;

/// The history of plugins. The last [`MAX_VERSIONS`](crate::MAX_VERSIONS) versions of each plugin are stored.
impl Store {
    /// Returns the versions of a plugin, newest first.
    pub async fn history(&self, plugin: &str) -> StoreResult<Vec<Version>> {
        self.work("read the history", async {
            history::of(&mut self.swift.session().await?, &self.key, plugin).await
        })
        .await
    }

    /// Returns the text with this hash.
    pub async fn source(&self, hash: &str) -> StoreResult<Option<String>> {
        self.work("read a source of the history", async {
            history::source(&mut self.swift.session().await?, hash).await
        })
        .await
    }

    /// Returns the periods that the histories of all plugins cover.
    pub async fn spans(&self) -> StoreResult<Vec<Span>> {
        self.read("read the histories", |snapshot| snapshot.spans.clone(), async {
            history::spans(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Records the files that a scan found if they differ from the newest versions; the generation is
    /// unchanged. A file is left out if a newer version was recorded after the scan started, which may know
    /// more. Returns the plugins of those files, which have to be scanned again.
    pub async fn record(&self, seen: &[SeenFile]) -> StoreResult<Vec<String>> {
        self.work("write the history", async {
            if seen.is_empty() {
                return Ok(Vec::new());
            }
            // The file is on disk already; the next scan finds a change that is lost here.
            let mut transaction = self.swift.begin(Lock::Settings).await?;
            let late = history::record(&mut transaction, &self.key, seen).await?;
            transaction.commit().await?;
            self.changed_quietly();
            Ok(late)
        })
        .await
    }

    /// Records an operator's change of a file as one version, together with the settings that belong to it.
    /// Returns the new generation.
    pub async fn edit(&self, edit: &Edit<'_>) -> StoreResult<u64> {
        self.work("write the history", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            history::edit(&mut transaction, &self.key, edit).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }
}
