//! Conversations. Each method is one transaction; writers lock the conversation at its
//! beginning.

use super::database::Store;
use crate::conversation::{Checkpoint, Conversation, NewRun, Prune, Run, RunStart, RunStatus, RunStep};
use crate::error::StoreResult;
use crate::rows::conversations::{checkpoints, messages, runs, transfer};
use crate::sql::Lock;
use valvehouse_json::Json;

/// The conversations in the store. Every method is one transaction, which is durable when it returns.
///
/// At most one run of a conversation is running, paused or failed: the one that can be resumed. Values nested
/// too deeply to be read again are rejected, also in an imported conversation.
impl Store {
    /// Returns the conversation with this id.
    pub async fn conversation(&self, id: &str) -> StoreResult<Option<Conversation>> {
        self.work("read a conversation", async {
            messages::conversation(&mut self.swift.session().await?, id).await
        })
        .await
    }

    /// Returns the conversations of an agent, or of all agents, newest message first.
    pub async fn conversations(&self, agent: Option<&str>, limit: u64) -> StoreResult<Vec<Conversation>> {
        self.work("list conversations", async {
            messages::conversations(&mut self.swift.session().await?, agent, limit).await
        })
        .await
    }

    /// Returns the conversations of a verified user that changed before this time, newest first.
    pub async fn conversations_of(
        &self,
        owner: &str,
        before: Option<i64>,
        limit: u64,
    ) -> StoreResult<Vec<Conversation>> {
        self.work("list the conversations of a user", async {
            messages::conversations_of(&mut self.swift.session().await?, owner, before, limit).await
        })
        .await
    }

    /// Returns the conversation with this id if it belongs to this verified user.
    pub async fn conversation_of(&self, owner: &str, id: &str) -> StoreResult<Option<Conversation>> {
        self.work("read a conversation", async {
            messages::conversation_of(&mut self.swift.session().await?, owner, id).await
        })
        .await
    }

    /// Returns the messages of a range, in order; positions after the end are left out.
    pub async fn messages(&self, conversation: &str, from: u64, to: u64) -> StoreResult<Vec<Json>> {
        self.work("read the messages of a conversation", async {
            messages::messages(&mut self.swift.session().await?, conversation, from, to).await
        })
        .await
    }

    /// Starts a run, unless another host works on one of this conversation.
    pub async fn begin_run(&self, beginning: &NewRun<'_>) -> StoreResult<RunStart> {
        self.work("start a run", async {
            let mut transaction = self.begin(Lock::Conversation(beginning.conversation)).await?;
            let begun = runs::begin(&mut transaction, beginning).await?;
            transaction.commit().await?;
            Ok(begun)
        })
        .await
    }

    /// Takes over a run to continue it, and raises its step, so that later writes of its previous owner are
    /// rejected, even if that is the same process. Returns `None` if the run does not exist, has ended, is in
    /// progress, or is not at `step`.
    pub async fn claim_run(&self, id: &str, step: u64, owner: &str, pid: u32) -> StoreResult<Option<Run>> {
        self.work("resume a run", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let run = runs::claim(&mut transaction, id, step, owner, pid).await?;
            transaction.commit().await?;
            Ok(run)
        })
        .await
    }

    /// Stores a step of a run that its owner started or took over. Returns `false` and stores nothing if
    /// another host has continued the run or the run has ended.
    pub async fn keep_step(&self, step: &RunStep<'_>) -> StoreResult<bool> {
        self.work("store a step of a run", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let kept = runs::keep(&mut transaction, step).await?;
            transaction.commit().await?;
            Ok(kept)
        })
        .await
    }

    /// Records a heartbeat of the owner of a run, without waiting for the disk.
    pub async fn touch_run(&self, id: &str, owner: &str) -> StoreResult<()> {
        self.work("record that a run is alive", async {
            runs::touch(&mut self.swift.session().await?, id, owner).await
        })
        .await
    }

    /// Returns the run with this id.
    pub async fn run(&self, id: &str) -> StoreResult<Option<Run>> {
        self.work("read a run", async { runs::run(&mut self.swift.session().await?, id).await }).await
    }

    /// Returns the runs of a conversation, or of all conversations, newest first, optionally only those with
    /// this status.
    pub async fn runs(
        &self,
        conversation: Option<&str>,
        status: Option<RunStatus>,
        limit: u64,
    ) -> StoreResult<Vec<Run>> {
        self.work("list runs", async {
            runs::runs(&mut self.swift.session().await?, conversation, status, limit).await
        })
        .await
    }

    /// Returns the checkpoint with this id.
    pub async fn checkpoint(&self, id: &str) -> StoreResult<Option<Checkpoint>> {
        self.work("read a checkpoint", async {
            checkpoints::checkpoint(&mut self.swift.session().await?, id).await
        })
        .await
    }

    /// Returns the latest checkpoint of a run.
    pub async fn latest_checkpoint(&self, run: &str) -> StoreResult<Option<Checkpoint>> {
        self.work("read a checkpoint", async {
            checkpoints::latest(&mut self.swift.session().await?, run).await
        })
        .await
    }

    /// Returns the checkpoints of a conversation without their states, newest first.
    pub async fn checkpoints(&self, conversation: &str, limit: u64) -> StoreResult<Vec<Checkpoint>> {
        self.work("list checkpoints", async {
            checkpoints::list(&mut self.swift.session().await?, conversation, limit).await
        })
        .await
    }

    /// Creates an independent conversation from the first `length` messages of another, with these kept
    /// values. Returns `false` if the id is in use.
    ///
    /// # Errors
    /// Returns an error if the other conversation does not exist or is shorter.
    pub async fn fork(&self, from: &str, length: u64, id: &str, kept: &Json) -> StoreResult<bool> {
        self.work("fork a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            let forked = messages::fork(&mut transaction, from, length, id, kept).await?;
            transaction.commit().await?;
            Ok(forked)
        })
        .await
    }

    /// Returns a conversation with its messages, runs and checkpoints as one JSON object; `None` if it does
    /// not exist. The owners of its runs are left out, because they do not exist where it is imported.
    pub async fn export(&self, conversation: &str) -> StoreResult<Option<Json>> {
        self.work("export a conversation", async {
            let mut transaction = self.swift.snapshot().await?;
            transfer::export(&mut transaction, conversation).await
        })
        .await
    }

    /// Imports an exported conversation under its own id or another one, completely or not at all. Returns
    /// `false` if the id is in use. Its runs and checkpoints keep their ids, unless one of them is in use
    /// here: then all get new ones.
    pub async fn import(&self, exported: &Json, id: Option<&str>) -> StoreResult<bool> {
        self.work("import a conversation", async {
            let exported = transfer::read(exported, id)?;
            let mut transaction = self.begin(Lock::Conversation(&exported.conversation.id)).await?;
            let imported = transfer::import(&mut transaction, exported).await?;
            transaction.commit().await?;
            Ok(imported)
        })
        .await
    }

    /// Deletes old checkpoints of one conversation or of all, and returns their number. Messages are never
    /// deleted, and neither is the last checkpoint of a run that can be resumed.
    pub async fn prune(&self, conversation: Option<&str>, keep: Prune) -> StoreResult<u64> {
        self.work("delete old checkpoints", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let dropped = checkpoints::prune(&mut transaction, conversation, keep).await?;
            transaction.commit().await?;
            Ok(dropped)
        })
        .await
    }

    /// Deletes a conversation with everything that belongs to it. Returns `false` if it does not exist.
    pub async fn forget_conversation(&self, id: &str) -> StoreResult<bool> {
        self.work("delete a conversation", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let forgotten = messages::forget(&mut transaction, id).await?;
            transaction.commit().await?;
            Ok(forgotten)
        })
        .await
    }
}
