//! [`ScriptSets`] in an SQL database. Each method is one transaction.

use super::database::SqlStore;
use crate::error::StoreFuture;
use crate::rows::script_sets;
use crate::scripts::{NewScriptSet, ScriptFile, ScriptSet, ScriptSets};
use crate::sql::Lock;

impl ScriptSets for SqlStore {
    fn script_sets(&self) -> StoreFuture<'_, Vec<ScriptSet>> {
        self.work("list the stored scripts", async move {
            script_sets::all(&mut self.swift.session().await?).await
        })
    }

    fn script_files(&self, generation: u64) -> StoreFuture<'_, Vec<ScriptFile>> {
        self.read(
            "read the stored scripts",
            // A snapshot has only the files of its own generation.
            |snapshot| snapshot.files.clone(),
            async move { script_sets::files(&mut self.swift.session().await?, generation).await },
        )
    }

    fn put_script_set<'a>(&'a self, set: &'a NewScriptSet<'a>) -> StoreFuture<'a, u64> {
        self.work("store scripts", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            let generation = script_sets::put(&mut transaction, set).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn restore_script_set<'a>(&'a self, generation: u64, by: &'a str) -> StoreFuture<'a, Option<u64>> {
        self.work("store scripts", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            let restored = script_sets::restore(&mut transaction, generation, by).await?;
            transaction.commit().await?;
            Ok(restored)
        })
    }
}
