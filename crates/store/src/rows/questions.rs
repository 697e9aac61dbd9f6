//! The rows of questions and of sent answers.

use super::generation::wake;
use super::json::{AT_ONCE, encode};
use crate::clock::now;
use crate::questions::{AnswerState, SentAnswer, StoredQuestion};
use crate::record::HOST_SILENCE;
use crate::seal::SealKey;
use crate::sql::{self, Row, Session, query, query_scalar};
use valvehouse_json::Json;

/// The time after which abandoned rows are deleted, in milliseconds.
const LEFT_MS: i64 = 60_000;
/// The stored states of answers.
const WAITING: i64 = 0;
const TAKEN: i64 = 1;
const REFUSED: i64 = 2;

/// Returns the subject that a question is sealed for, so that it opens in no other row.
fn question_of(id: &str, host_id: &str) -> String {
    format!("question {id:?} {host_id:?}")
}

/// Returns the subject that an answer is sealed for.
fn answer_of(id: &str, question: &str) -> String {
    format!("answer {id:?} {question:?}")
}

/// Returns the earliest heartbeat of a running host, in milliseconds since 1970.
fn alive() -> i64 {
    now() - i64::try_from(HOST_SILENCE.as_millis()).unwrap_or(i64::MAX)
}

/// Writes questions, and deletes abandoned rows.
pub(crate) async fn add(
    transaction: &mut Session,
    key: &SealKey,
    questions: &[StoredQuestion],
) -> Result<(), sqlx::Error> {
    let left = now() - LEFT_MS;
    query("DELETE FROM questions WHERE ends_at < ?").bind(left).execute(transaction).await?;
    query("DELETE FROM question_answers WHERE at < ?").bind(left).execute(transaction).await?;
    for questions in questions.chunks(AT_ONCE) {
        let mut rows = Vec::with_capacity(questions.len());
        for one in questions {
            let content = Json::from([
                ("whose", one.whose.as_str().into()),
                ("held", one.held.as_ref().map_or(Json::Null, Json::deep_clone)),
                ("since", one.since_ms.into()),
            ]);
            let sealed = key.seal(&encode(&content)?, &question_of(&one.id, &one.host_id));
            rows.push([
                one.id.as_str().into(),
                one.host_id.as_str().into(),
                one.held.is_some().into(),
                sealed.into(),
                one.ends_ms.into(),
            ]);
        }
        let head = "INSERT INTO questions (id, host_id, held, content, ends_at)";
        sql::insert(head, rows, "ON CONFLICT (id) DO NOTHING").execute(transaction).await?;
    }
    Ok(())
}

/// Deletes questions, and wakes the hosts that wait for the outcomes of their answers.
pub(crate) async fn remove(transaction: &mut Session, ids: &[String]) -> Result<(), sqlx::Error> {
    for id in ids {
        query("DELETE FROM questions WHERE id = ?").bind(id).execute(transaction).await?;
    }
    wake(transaction).await
}

/// Deletes the questions of a host that ends.
pub(crate) async fn remove_of_host(session: &mut Session, host_id: &str) -> Result<(), sqlx::Error> {
    query("DELETE FROM questions WHERE host_id = ?").bind(host_id).execute(session).await?;
    Ok(())
}

/// Reads the questions for operators at running hosts.
pub(crate) async fn held(session: &mut Session, key: &SealKey) -> Result<Vec<StoredQuestion>, sqlx::Error> {
    let rows = query(
        "SELECT id, host_id, content, ends_at FROM questions
         WHERE held AND host_id IN (SELECT host_id FROM hosts WHERE seen_at >= ?)",
    )
    .bind(alive())
    .fetch_all(session)
    .await?;
    Ok(rows
        .iter()
        .map(|row| question(row, key))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// Reads a question of a running host.
pub(crate) async fn find(
    session: &mut Session,
    key: &SealKey,
    id: &str,
) -> Result<Option<StoredQuestion>, sqlx::Error> {
    let row = query(
        "SELECT id, host_id, content, ends_at FROM questions
         WHERE id = ? AND host_id IN (SELECT host_id FROM hosts WHERE seen_at >= ?)",
    )
    .bind(id)
    .bind(alive())
    .fetch_optional(session)
    .await?;
    Ok(row.map(|row| question(&row, key)).transpose()?.flatten())
}

/// Reads a row; `None` if it cannot be opened because it was changed by hand.
fn question(row: &Row, key: &SealKey) -> Result<Option<StoredQuestion>, sqlx::Error> {
    let (id, host_id): (String, String) = (row.try_get("id")?, row.try_get("host_id")?);
    let content = opened(key, row.try_get("content")?, &question_of(&id, &host_id));
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

fn opened(key: &SealKey, content: &str, about: &str) -> Option<Json> {
    Json::parse(key.open(content, about)?.as_bytes()).ok()
}

/// Writes an answer to a question of a running host. Returns `false` if the question does not exist.
pub(crate) async fn send(
    transaction: &mut Session,
    key: &SealKey,
    sent: &SentAnswer,
) -> Result<bool, sqlx::Error> {
    let content = Json::from([
        ("by", sent.by.as_deref().map_or(Json::Null, Json::from)),
        ("answer", sent.answer.deep_clone()),
    ]);
    let count = query_scalar::<i64>(
        "SELECT count(*) FROM questions
         WHERE id = ? AND host_id IN (SELECT host_id FROM hosts WHERE seen_at >= ?)",
    );
    if count.bind(&sent.question).bind(alive()).fetch_one(transaction).await? == 0 {
        return Ok(false);
    }
    query("INSERT INTO question_answers (id, question, content, state, at) VALUES (?, ?, ?, ?, ?)")
        .bind(&sent.id)
        .bind(&sent.question)
        .bind(key.seal(&encode(&content)?, &answer_of(&sent.id, &sent.question)))
        .bind(WAITING)
        .bind(now())
        .execute(transaction)
        .await?;
    wake(transaction).await?;
    Ok(true)
}

/// Reads the answers that wait for a host.
pub(crate) async fn waiting(
    session: &mut Session,
    key: &SealKey,
    host_id: &str,
) -> Result<Vec<SentAnswer>, sqlx::Error> {
    let rows = query(
        "SELECT sent.id AS id, sent.question AS question, sent.content AS content
         FROM question_answers AS sent JOIN questions AS origin ON origin.id = sent.question
         WHERE origin.host_id = ? AND sent.state = ? ORDER BY sent.at, sent.id",
    )
    .bind(host_id)
    .bind(WAITING)
    .fetch_all(session)
    .await?;
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let (id, question): (String, String) = (row.try_get("id")?, row.try_get("question")?);
        // An answer that was written by hand is ignored until its row is deleted.
        let Some(content) = opened(key, row.try_get("content")?, &answer_of(&id, &question)) else {
            continue;
        };
        all.push(SentAnswer {
            by: content.text("by").map(String::from),
            answer: content.field("answer"),
            id,
            question,
        });
    }
    Ok(all)
}

/// Records the outcome of an answer.
pub(crate) async fn settle(transaction: &mut Session, id: &str, is_taken: bool) -> Result<(), sqlx::Error> {
    query("UPDATE question_answers SET state = ? WHERE id = ?")
        .bind(if is_taken { TAKEN } else { REFUSED })
        .bind(id)
        .execute(transaction)
        .await?;
    wake(transaction).await
}

/// Reads the state of an answer. An answer without its question is rejected.
pub(crate) async fn state(session: &mut Session, id: &str) -> Result<AnswerState, sqlx::Error> {
    // One statement is used, because an accepted answer is recorded before its question is deleted.
    let row = query(
        "SELECT sent.state AS state, (SELECT count(*) FROM questions AS origin WHERE origin.id = sent.question) AS open
         FROM question_answers AS sent WHERE sent.id = ?",
    )
    .bind(id)
    .fetch_optional(session)
    .await?;
    let Some(row) = row else { return Ok(AnswerState::Refused) };
    Ok(match (row.try_get::<i64>("state")?, row.try_get::<i64>("open")?) {
        (WAITING, 1..) => AnswerState::Waiting,
        (TAKEN, _) => AnswerState::Taken,
        _ => AnswerState::Refused,
    })
}

/// Deletes an answer, and returns its state.
pub(crate) async fn remove_answer(session: &mut Session, id: &str) -> Result<AnswerState, sqlx::Error> {
    let removed = query_scalar::<i64>("DELETE FROM question_answers WHERE id = ? RETURNING state");
    Ok(match removed.bind(id).fetch_optional(session).await? {
        Some(WAITING) => AnswerState::Waiting,
        Some(TAKEN) => AnswerState::Taken,
        _ => AnswerState::Refused,
    })
}
