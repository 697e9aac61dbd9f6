//! [`History`] in an SQL database. Each method is one transaction.

use super::database::SqlStore;
use crate::error::StoreFuture;
use crate::history::{Edit, History, SeenFile, Span, Version};
use crate::rows::generation::raise;
use crate::rows::history;
use crate::sql::Lock;

impl History for SqlStore {
    fn history<'a>(&'a self, plugin: &'a str) -> StoreFuture<'a, Vec<Version>> {
        self.work("read the history", async move {
            history::of(&mut self.swift.session().await?, &self.key, plugin).await
        })
    }

    fn source<'a>(&'a self, hash: &'a str) -> StoreFuture<'a, Option<String>> {
        self.work("read a source of the history", async move {
            history::source(&mut self.swift.session().await?, hash).await
        })
    }

    fn spans(&self) -> StoreFuture<'_, Vec<Span>> {
        self.read("read the histories", |snapshot| snapshot.spans.clone(), async {
            history::spans(&mut self.swift.session().await?).await
        })
    }

    fn record<'a>(&'a self, seen: &'a [SeenFile]) -> StoreFuture<'a, Vec<String>> {
        self.work("write the history", async move {
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
    }

    fn edit<'a>(&'a self, edit: &'a Edit<'a>) -> StoreFuture<'a, u64> {
        self.work("write the history", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            history::edit(&mut transaction, &self.key, edit).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }
}
