//! The sets of scripts. Each method is one transaction.

use super::database::Store;
use crate::error::StoreResult;
use crate::rows::script_sets;
use crate::scripts::{NewScriptSet, ScriptFile, ScriptSet};
use crate::sql::Lock;

/// The sets of scripts in the store.
impl Store {
    /// Returns the sets, newest first.
    pub async fn script_sets(&self) -> StoreResult<Vec<ScriptSet>> {
        self.work("list the stored scripts", async {
            script_sets::all(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Returns the files of a generation's set, sorted by path.
    pub async fn script_files(&self, generation: u64) -> StoreResult<Vec<ScriptFile>> {
        self.read(
            "read the stored scripts",
            // A snapshot has only the files of its own generation.
            |snapshot| snapshot.files.clone(),
            async { script_sets::files(&mut self.swift.session().await?, generation).await },
        )
        .await
    }

    /// Stores a set completely or not at all, and returns its generation.
    pub async fn put_script_set(&self, set: &NewScriptSet<'_>) -> StoreResult<u64> {
        self.work("store scripts", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let generation = script_sets::put(&mut transaction, set).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }

    /// Stores the files and the signature of an earlier set as a new set, and returns its generation; `None`
    /// if the earlier set does not exist.
    pub async fn restore_script_set(&self, generation: u64, by: &str) -> StoreResult<Option<u64>> {
        self.work("store scripts", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let restored = script_sets::restore(&mut transaction, generation, by).await?;
            transaction.commit().await?;
            Ok(restored)
        })
        .await
    }
}
