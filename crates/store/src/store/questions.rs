//! Questions that wait for a user. Each method is one transaction. A power failure may lose rows, as
//! it ends the turns that wait for them.

use super::database::Store;
use crate::error::StoreResult;
use crate::questions::{AnswerState, SentAnswer, StoredQuestion};
use crate::rows::questions;
use crate::sql::Lock;

/// Questions that wait for a user, and the answers that hosts send each other. Questions of a host without a
/// heartbeat within [`HOST_SILENCE`](crate::HOST_SILENCE) are not returned.
impl Store {
    /// Stores questions of a host; stored ones are unchanged. Deletes rows of questions that ended long ago.
    pub async fn add_questions(&self, added: &[StoredQuestion]) -> StoreResult<()> {
        self.work("list a question", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::add(&mut transaction, &self.key, added).await?;
            transaction.commit().await
        })
        .await
    }

    /// Deletes questions. Answers to them that were not accepted count as rejected.
    pub async fn remove_questions(&self, ids: &[String]) -> StoreResult<()> {
        self.work("take a question off the list", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::remove(&mut transaction, ids).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the questions for operators.
    pub async fn held_questions(&self) -> StoreResult<Vec<StoredQuestion>> {
        self.look("read the questions of other hosts", |_| Vec::new(), async {
            questions::held(&mut self.swift.session().await?, &self.key).await
        })
        .await
    }

    /// Returns the question with this id.
    pub async fn question(&self, id: &str) -> StoreResult<Option<StoredQuestion>> {
        self.look("read a question of another host", |_| None, async {
            questions::find(&mut self.swift.session().await?, &self.key, id).await
        })
        .await
    }

    /// Sends an answer to the host of the question, and wakes it. Returns `false` if the question does not
    /// exist.
    pub async fn send_answer(&self, sent: &SentAnswer) -> StoreResult<bool> {
        self.work("send an answer to the host that asked", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            let is_sent = questions::send(&mut transaction, &self.key, sent).await?;
            transaction.commit().await?;
            Ok(is_sent)
        })
        .await
    }

    /// Returns the answers that wait for a host, in the order in which they were sent.
    pub async fn waiting_answers(&self, host_id: &str) -> StoreResult<Vec<SentAnswer>> {
        self.look("read the answers of other hosts", |_| Vec::new(), async {
            questions::waiting(&mut self.swift.session().await?, &self.key, host_id).await
        })
        .await
    }

    /// Records that the host of the question accepted or rejected an answer, and wakes the host that sent it.
    pub async fn settle_answer(&self, id: &str, is_taken: bool) -> StoreResult<()> {
        self.work("confirm an answer", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::settle(&mut transaction, id, is_taken).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the state of a sent answer.
    pub async fn answer_state(&self, id: &str) -> StoreResult<AnswerState> {
        self.look("read the outcome of an answer", |_| AnswerState::Waiting, async {
            questions::state(&mut self.swift.session().await?, id).await
        })
        .await
    }

    /// Deletes a sent answer, and returns its last state; one that was still waiting is undeliverable.
    pub async fn remove_answer(&self, id: &str) -> StoreResult<AnswerState> {
        self.work("remove an answer", async {
            questions::remove_answer(&mut self.swift.session().await?, id).await
        })
        .await
    }
}
