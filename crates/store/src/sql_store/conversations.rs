//! [`Conversations`] in an SQL database. Each method is one transaction; writers lock the conversation at its
//! beginning.

use super::database::SqlStore;
use crate::conversation::{
    Checkpoint, Conversation, Conversations, NewRun, Prune, Run, RunStart, RunStatus, RunStep,
};
use crate::error::StoreFuture;
use crate::rows::conversations::{checkpoints, messages, runs, transfer};
use crate::sql::Lock;
use valvehouse_json::Json;

impl Conversations for SqlStore {
    fn conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Conversation>> {
        self.work("read a conversation", async move {
            messages::conversation(&mut self.swift.session().await?, id).await
        })
    }

    fn conversations<'a>(&'a self, agent: Option<&'a str>, limit: u64) -> StoreFuture<'a, Vec<Conversation>> {
        self.work("list conversations", async move {
            messages::conversations(&mut self.swift.session().await?, agent, limit).await
        })
    }

    fn conversations_of<'a>(
        &'a self,
        owner: &'a str,
        before: Option<i64>,
        limit: u64,
    ) -> StoreFuture<'a, Vec<Conversation>> {
        self.work("list the conversations of a user", async move {
            messages::conversations_of(&mut self.swift.session().await?, owner, before, limit).await
        })
    }

    fn conversation_of<'a>(&'a self, owner: &'a str, id: &'a str) -> StoreFuture<'a, Option<Conversation>> {
        self.work("read a conversation", async move {
            messages::conversation_of(&mut self.swift.session().await?, owner, id).await
        })
    }

    fn messages<'a>(&'a self, conversation: &'a str, from: u64, to: u64) -> StoreFuture<'a, Vec<Json>> {
        self.work("read the messages of a conversation", async move {
            messages::messages(&mut self.swift.session().await?, conversation, from, to).await
        })
    }

    fn begin_run<'a>(&'a self, beginning: &'a NewRun<'a>) -> StoreFuture<'a, RunStart> {
        self.work("start a run", async move {
            let mut transaction = self.begin(Lock::Conversation(beginning.conversation)).await?;
            let begun = runs::begin(&mut transaction, beginning).await?;
            transaction.commit().await?;
            Ok(begun)
        })
    }

    fn claim_run<'a>(
        &'a self,
        id: &'a str,
        step: u64,
        owner: &'a str,
        pid: u32,
    ) -> StoreFuture<'a, Option<Run>> {
        self.work("resume a run", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let run = runs::claim(&mut transaction, id, step, owner, pid).await?;
            transaction.commit().await?;
            Ok(run)
        })
    }

    fn keep_step<'a>(&'a self, step: &'a RunStep<'a>) -> StoreFuture<'a, bool> {
        self.work("store a step of a run", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let kept = runs::keep(&mut transaction, step).await?;
            transaction.commit().await?;
            Ok(kept)
        })
    }

    fn touch_run<'a>(&'a self, id: &'a str, owner: &'a str) -> StoreFuture<'a, ()> {
        self.work("record that a run is alive", async move {
            runs::touch(&mut self.swift.session().await?, id, owner).await
        })
    }

    fn run<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Run>> {
        self.work("read a run", async move { runs::run(&mut self.swift.session().await?, id).await })
    }

    fn runs<'a>(
        &'a self,
        conversation: Option<&'a str>,
        status: Option<RunStatus>,
        limit: u64,
    ) -> StoreFuture<'a, Vec<Run>> {
        self.work("list runs", async move {
            runs::runs(&mut self.swift.session().await?, conversation, status, limit).await
        })
    }

    fn checkpoint<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Checkpoint>> {
        self.work("read a checkpoint", async move {
            checkpoints::checkpoint(&mut self.swift.session().await?, id).await
        })
    }

    fn latest_checkpoint<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Option<Checkpoint>> {
        self.work("read a checkpoint", async move {
            checkpoints::latest(&mut self.swift.session().await?, run).await
        })
    }

    fn checkpoints<'a>(&'a self, conversation: &'a str, limit: u64) -> StoreFuture<'a, Vec<Checkpoint>> {
        self.work("list checkpoints", async move {
            checkpoints::list(&mut self.swift.session().await?, conversation, limit).await
        })
    }

    fn fork<'a>(&'a self, from: &'a str, length: u64, id: &'a str, kept: &'a Json) -> StoreFuture<'a, bool> {
        self.work("fork a conversation", async move {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            let forked = messages::fork(&mut transaction, from, length, id, kept).await?;
            transaction.commit().await?;
            Ok(forked)
        })
    }

    fn export<'a>(&'a self, conversation: &'a str) -> StoreFuture<'a, Option<Json>> {
        self.work("export a conversation", async move {
            let mut transaction = self.swift.snapshot().await?;
            transfer::export(&mut transaction, conversation).await
        })
    }

    fn import<'a>(&'a self, exported: &'a Json, id: Option<&'a str>) -> StoreFuture<'a, bool> {
        self.work("import a conversation", async move {
            let exported = transfer::read(exported, id)?;
            let mut transaction = self.begin(Lock::Conversation(&exported.conversation.id)).await?;
            let imported = transfer::import(&mut transaction, exported).await?;
            transaction.commit().await?;
            Ok(imported)
        })
    }

    fn prune<'a>(&'a self, conversation: Option<&'a str>, keep: Prune) -> StoreFuture<'a, u64> {
        self.work("delete old checkpoints", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let dropped = checkpoints::prune(&mut transaction, conversation, keep).await?;
            transaction.commit().await?;
            Ok(dropped)
        })
    }

    fn forget_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, bool> {
        self.work("delete a conversation", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let forgotten = messages::forget(&mut transaction, id).await?;
            transaction.commit().await?;
            Ok(forgotten)
        })
    }
}
