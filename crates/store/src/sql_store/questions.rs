//! [`QuestionExchange`] in an SQL database. Each method is one transaction. A power failure may lose rows, as
//! it ends the turns that wait for them.

use super::database::SqlStore;
use crate::error::StoreFuture;
use crate::questions::{AnswerState, QuestionExchange, SentAnswer, StoredQuestion};
use crate::rows::questions;
use crate::sql::Lock;

impl QuestionExchange for SqlStore {
    fn add_questions<'a>(&'a self, added: &'a [StoredQuestion]) -> StoreFuture<'a, ()> {
        self.work("list a question", async move {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::add(&mut transaction, &self.key, added).await?;
            transaction.commit().await
        })
    }

    fn remove_questions<'a>(&'a self, ids: &'a [String]) -> StoreFuture<'a, ()> {
        self.work("take a question off the list", async move {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::remove(&mut transaction, ids).await?;
            transaction.commit().await
        })
    }

    fn held_questions(&self) -> StoreFuture<'_, Vec<StoredQuestion>> {
        self.look("read the questions of other hosts", |_| Vec::new(), async {
            questions::held(&mut self.swift.session().await?, &self.key).await
        })
    }

    fn question<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<StoredQuestion>> {
        self.look("read a question of another host", |_| None, async move {
            questions::find(&mut self.swift.session().await?, &self.key, id).await
        })
    }

    fn send_answer<'a>(&'a self, sent: &'a SentAnswer) -> StoreFuture<'a, bool> {
        self.work("send an answer to the host that asked", async move {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            let is_sent = questions::send(&mut transaction, &self.key, sent).await?;
            transaction.commit().await?;
            Ok(is_sent)
        })
    }

    fn waiting_answers<'a>(&'a self, host_id: &'a str) -> StoreFuture<'a, Vec<SentAnswer>> {
        self.look("read the answers of other hosts", |_| Vec::new(), async move {
            questions::waiting(&mut self.swift.session().await?, &self.key, host_id).await
        })
    }

    fn settle_answer<'a>(&'a self, id: &'a str, is_taken: bool) -> StoreFuture<'a, ()> {
        self.work("confirm an answer", async move {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::settle(&mut transaction, id, is_taken).await?;
            transaction.commit().await
        })
    }

    fn answer_state<'a>(&'a self, id: &'a str) -> StoreFuture<'a, AnswerState> {
        self.look("read the outcome of an answer", |_| AnswerState::Waiting, async move {
            questions::state(&mut self.swift.session().await?, id).await
        })
    }

    fn remove_answer<'a>(&'a self, id: &'a str) -> StoreFuture<'a, AnswerState> {
        self.work("remove an answer", async move {
            questions::remove_answer(&mut self.swift.session().await?, id).await
        })
    }
}
