//! The checkpoints of runs.

use super::database::Store;
use crate::conversation::{Checkpoint, Prune};
use crate::error::StoreResult;
use crate::export::AROUND_STATE;
use crate::rows::json::{read, stored};
use crate::sql::{Query, Row, Session, Value, columns, query, query_text, values};
use uuid::Uuid;
use valvehouse_json::Json;

/// The checkpoints of runs.
impl Store {
    /// Returns the checkpoint with this id.
    pub async fn checkpoint(&self, id: &str) -> StoreResult<Option<Checkpoint>> {
        let query = select("state", "WHERE checkpoints.id = ?", values![id]);
        Ok(self.fetch("read a checkpoint", query, from_row).await?.pop())
    }

    /// Returns the latest checkpoint of a run.
    pub async fn latest_checkpoint(&self, run: &str) -> StoreResult<Option<Checkpoint>> {
        let which = "WHERE runs.id = ? ORDER BY checkpoints.step DESC LIMIT 1";
        let query = select("state", which, values![run]);
        Ok(self.fetch("read a checkpoint", query, from_row).await?.pop())
    }

    /// Returns the checkpoints of a conversation without their states, newest first.
    pub async fn checkpoints(&self, conversation: &str, limit: u64) -> StoreResult<Vec<Checkpoint>> {
        let which = "WHERE conversations.id = ? ORDER BY runs.number DESC, checkpoints.step DESC LIMIT ?";
        let query = select("'null'", which, values![conversation, limit]);
        self.fetch("list checkpoints", query, from_row).await
    }

    /// Deletes old checkpoints of one conversation or of all, and returns their number. Messages are never
    /// deleted, and neither is the last checkpoint of a run that can be resumed.
    pub async fn prune(&self, conversation: Option<&str>, keep: Prune) -> StoreResult<u64> {
        // This uses the index, so runs of other conversations are not read.
        const OF_ONE: &str = "WHERE conversation = (SELECT number FROM conversations WHERE id = ?3)";
        let text = format!(
            "WITH ranked AS (
                SELECT number, status, row_number() OVER (PARTITION BY conversation ORDER BY number DESC) AS rank
                FROM runs {})
             DELETE FROM checkpoints WHERE id IN (
                SELECT checkpoints.id FROM ranked JOIN checkpoints ON checkpoints.run = ranked.number
                WHERE rank > ?1 AND NOT (
                    step = (SELECT max(step) FROM checkpoints AS others WHERE others.run = ranked.number)
                    AND (rank <= ?2 OR status IN ('running', 'paused', 'failed'))
                )
             )",
            conversation.map_or("", |_| OF_ONE)
        );
        let prune = query_text(text).bind_all(values![keep.whole_runs, keep.runs]);
        self.execute_durably("delete old checkpoints", prune.bind_all(conversation.map(Value::from))).await
    }
}

fn select<'q>(state: &str, which: &str, values: impl IntoIterator<Item = Value<'q>>) -> Query<'q> {
    let text = format!(
        "SELECT checkpoints.id AS id, conversations.id AS conversation, runs.id AS run, checkpoints.step,
            checkpoints.length AS length, name, {state} AS state, saved_at
         FROM runs JOIN conversations ON conversations.number = runs.conversation
         JOIN checkpoints ON checkpoints.run = runs.number {which}"
    );
    query_text(text).bind_all(values)
}

fn from_row(row: &Row) -> sqlx::Result<Checkpoint> {
    let id: String = row.try_get("id")?;
    let state = read(|| format!("the state of the checkpoint {id:?}"), row.try_get("state")?)?;
    let (step, length) = (row.count("step")?, row.count("length")?);
    Ok(columns!(row => Checkpoint { conversation, run, name, saved_at; id, step, length, state }))
}

/// Returns the checkpoints of a run, in the order of their steps.
pub(super) async fn of_run(session: &mut Session, run: &str) -> sqlx::Result<Vec<Checkpoint>> {
    let query = select("state", "WHERE runs.id = ? ORDER BY checkpoints.step", values![run]);
    query.fetch_all(session).await?.iter().map(from_row).collect()
}

/// A checkpoint to insert.
pub(super) struct New<'a> {
    pub(super) step: u64,
    pub(super) length: u64,
    pub(super) name: &'a str,
    pub(super) state: &'a Json,
    pub(super) saved_at: i64,
}

impl<'a> From<&'a Checkpoint> for New<'a> {
    fn from(checkpoint: &'a Checkpoint) -> Self {
        let Checkpoint { step, length, ref name, ref state, saved_at, .. } = *checkpoint;
        Self { step, length, name, state, saved_at }
    }
}

/// Inserts a checkpoint, with a new id if none is given.
pub(super) async fn insert(
    session: &mut Session,
    run: i64,
    id: Option<&str>,
    new: &New<'_>,
) -> sqlx::Result<()> {
    let id = id.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    query(
        "INSERT INTO checkpoints (id, run, step, length, name, state, saved_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind_all(values![id, run, new.step, new.length, new.name])
    .bind_all(values![stored(new.state, AROUND_STATE)?, new.saved_at])
    .execute(session)
    .await?;
    Ok(())
}

pub(super) async fn is_known(session: &mut Session, id: &str) -> sqlx::Result<bool> {
    query("SELECT EXISTS (SELECT 1 FROM checkpoints WHERE id = ?)").bind(id).fetch_scalar(session).await
}
