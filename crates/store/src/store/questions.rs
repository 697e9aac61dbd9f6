//! Questions that wait for a user, and the answers that hosts send each other. A power failure may lose them,
//! as it ends the turns that wait for them.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::questions::{AnswerState, SentAnswer, StoredQuestion};
use crate::record::alive;
use crate::rows::generation::wake;
use crate::rows::json::{AT_ONCE, encode};
use crate::sql::{self, Lock, Row, query, query_text, values};
use valvehouse_json::Json;

/// The time after which abandoned rows are deleted, in milliseconds.
const LEFT_MS: i64 = 60_000;
/// The stored states of answers.
const WAITING: i64 = 0;
const TAKEN: i64 = 1;
const REFUSED: i64 = 2;
/// Selects the questions of running hosts; its parameter is [`alive`].
const OF_RUNNING: &str = "WHERE host_id IN (SELECT host_id FROM hosts WHERE seen_at >= ?)";

/// Questions that wait for a user, and the answers that hosts send each other. Questions of a host without a
/// heartbeat within [`HOST_SILENCE`](crate::HOST_SILENCE) are not returned.
impl Store {
    /// Stores questions of a host; stored ones are unchanged. Deletes rows of questions that ended long ago.
    pub async fn add_questions(&self, questions: &[StoredQuestion]) -> StoreResult<()> {
        self.work("list a question", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            for text in
                ["DELETE FROM questions WHERE ends_at < ?", "DELETE FROM question_answers WHERE at < ?"]
            {
                query(text).bind(now() - LEFT_MS).execute(&mut transaction).await?;
            }
            for questions in questions.chunks(AT_ONCE) {
                let mut rows = Vec::with_capacity(questions.len());
                for one in questions {
                    let content = Json::from([
                        ("whose", one.whose.as_str().into()),
                        ("held", one.held.as_ref().map_or(Json::Null, Json::deep_clone)),
                        ("since", one.since_ms.into()),
                    ]);
                    let sealed = self.key.seal(&encode(&content)?, &question_of(&one.id, &one.host_id));
                    rows.push(values![&one.id, &one.host_id, one.held.is_some(), sealed, one.ends_ms]);
                }
                let head = "INSERT INTO questions (id, host_id, held, content, ends_at)";
                let insert = sql::insert(head, rows, "ON CONFLICT (id) DO NOTHING");
                insert.execute(&mut transaction).await?;
            }
            transaction.commit().await
        })
        .await
    }

    /// Deletes questions. Answers to them that were not accepted count as rejected.
    pub async fn remove_questions(&self, ids: &[String]) -> StoreResult<()> {
        self.work("take a question off the list", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            for id in ids {
                query("DELETE FROM questions WHERE id = ?").bind(id).execute(&mut transaction).await?;
            }
            // The hosts that wait for the outcomes of their answers.
            wake(&mut transaction).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the questions for operators.
    pub async fn held_questions(&self) -> StoreResult<Vec<StoredQuestion>> {
        self.look("read the questions of other hosts", |_| Vec::new(), async {
            let query = query_text(format!(
                "SELECT id, host_id, content, ends_at FROM questions {OF_RUNNING} AND held"
            ));
            let rows = query.bind(alive()).fetch_all(&mut self.swift.session().await?).await?;
            rows.iter().filter_map(|row| self.read_question(row).transpose()).collect()
        })
        .await
    }

    /// Returns the question with this id.
    pub async fn question(&self, id: &str) -> StoreResult<Option<StoredQuestion>> {
        self.look("read a question of another host", |_| None, async {
            let query = query_text(format!(
                "SELECT id, host_id, content, ends_at FROM questions {OF_RUNNING} AND id = ?"
            ));
            let query = query.bind_all(values![alive(), id]);
            let row = query.fetch_optional(&mut self.swift.session().await?).await?;
            row.map_or(Ok(None), |row| self.read_question(&row))
        })
        .await
    }

    /// Sends an answer to the host of the question, and wakes it. Returns `false` if the question does not
    /// exist.
    pub async fn send_answer(&self, sent: &SentAnswer) -> StoreResult<bool> {
        self.work("send an answer to the host that asked", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            let count = query_text(format!("SELECT count(*) FROM questions {OF_RUNNING} AND id = ?"));
            let count = count.bind_all(values![alive(), &sent.question]);
            if count.fetch_scalar::<i64>(&mut transaction).await? == 0 {
                return Ok(false);
            }
            let content = Json::from([
                ("by", sent.by.as_deref().map_or(Json::Null, Json::from)),
                ("answer", sent.answer.deep_clone()),
            ]);
            let sealed = self.key.seal(&encode(&content)?, &answer_of(&sent.id, &sent.question));
            query("INSERT INTO question_answers (id, question, content, state, at) VALUES (?, ?, ?, ?, ?)")
                .bind_all(values![&sent.id, &sent.question, sealed, WAITING, now()])
                .execute(&mut transaction)
                .await?;
            wake(&mut transaction).await?;
            transaction.commit_with(true).await
        })
        .await
    }

    /// Returns the answers that wait for a host, in the order in which they were sent.
    pub async fn waiting_answers(&self, host_id: &str) -> StoreResult<Vec<SentAnswer>> {
        self.look("read the answers of other hosts", |_| Vec::new(), async {
            let text = "SELECT sent.id AS id, sent.question AS question, sent.content AS content
                 FROM question_answers AS sent JOIN questions AS origin ON origin.id = sent.question
                 WHERE origin.host_id = ? AND sent.state = ? ORDER BY sent.at, sent.id";
            let query = query(text).bind_all(values![host_id, WAITING]);
            let mut all = Vec::new();
            for row in query.fetch_all(&mut self.swift.session().await?).await? {
                let (id, question): (String, String) = (row.try_get("id")?, row.try_get("question")?);
                // An answer that was written by hand is ignored until its row is deleted.
                let content = self.open_json(row.try_get("content")?, &answer_of(&id, &question));
                let Some(content) = content else { continue };
                let by = content.text("by").map(String::from);
                all.push(SentAnswer { by, answer: content.field("answer"), id, question });
            }
            Ok(all)
        })
        .await
    }

    /// Records that the host of the question accepted or rejected an answer, and wakes the host that sent it.
    pub async fn settle_answer(&self, id: &str, is_taken: bool) -> StoreResult<()> {
        self.work("confirm an answer", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            let state = if is_taken { TAKEN } else { REFUSED };
            let settle = query("UPDATE question_answers SET state = ? WHERE id = ?");
            settle.bind_all(values![state, id]).execute(&mut transaction).await?;
            wake(&mut transaction).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the state of a sent answer. An answer without its question is rejected.
    pub async fn answer_state(&self, id: &str) -> StoreResult<AnswerState> {
        self.look("read the outcome of an answer", |_| AnswerState::Waiting, async {
            // One statement is used, because an accepted answer is recorded before its question is deleted.
            let text = "SELECT sent.state AS state,
                 (SELECT count(*) FROM questions AS origin WHERE origin.id = sent.question) AS open
                 FROM question_answers AS sent WHERE sent.id = ?";
            let row = query(text).bind(id).fetch_optional(&mut self.swift.session().await?).await?;
            let Some(row) = row else { return Ok(AnswerState::Refused) };
            Ok(match (row.try_get::<i64>("state")?, row.try_get::<i64>("open")?) {
                (WAITING, 1..) => AnswerState::Waiting,
                (TAKEN, _) => AnswerState::Taken,
                _ => AnswerState::Refused,
            })
        })
        .await
    }

    /// Deletes a sent answer, and returns its last state; one that was still waiting is undeliverable.
    pub async fn remove_answer(&self, id: &str) -> StoreResult<AnswerState> {
        self.work("remove an answer", async {
            let delete = query("DELETE FROM question_answers WHERE id = ? RETURNING state").bind(id);
            Ok(match delete.fetch_scalar_optional(&mut self.swift.session().await?).await? {
                Some(WAITING) => AnswerState::Waiting,
                Some(TAKEN) => AnswerState::Taken,
                _ => AnswerState::Refused,
            })
        })
        .await
    }

    /// Reads a row; `None` if it cannot be opened because it was changed by hand.
    fn read_question(&self, row: &Row) -> sqlx::Result<Option<StoredQuestion>> {
        let (id, host_id): (String, String) = (row.try_get("id")?, row.try_get("host_id")?);
        let content = self.open_json(row.try_get("content")?, &question_of(&id, &host_id));
        let since = |content: Json| content.get("since")?.as_i64().map(|since| (content, since));
        let Some((content, since_ms)) = content.and_then(since) else {
            tracing::warn!(id, "a stored question cannot be opened: it was changed by hand");
            return Ok(None);
        };
        Ok(Some(StoredQuestion {
            whose: content.string("whose"),
            held: content.get("held").filter(|held| !held.is_null()),
            since_ms,
            ends_ms: row.try_get("ends_at")?,
            id,
            host_id,
        }))
    }

    fn open_json(&self, content: &str, about: &str) -> Option<Json> {
        Json::parse(self.key.open(content, about)?.as_bytes()).ok()
    }
}

/// Returns the subject that a question is sealed for, so that it opens in no other row.
fn question_of(id: &str, host_id: &str) -> String {
    format!("question {id:?} {host_id:?}")
}

/// Returns the subject that an answer is sealed for.
fn answer_of(id: &str, question: &str) -> String {
    format!("answer {id:?} {question:?}")
}
