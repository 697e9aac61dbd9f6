//! The rows of checkpoints.

use super::rows::{counted, read, stored, whole_number};
use crate::conversation::{Checkpoint, Prune};
use crate::export::AROUND_STATE;
use crate::sql::{Row, Session, query, query_scalar};
use sqlx::Error;
use uuid::Uuid;
use valvehouse_json::Json;

macro_rules! select {
    ($state:literal, $which:literal) => {
        concat!(
            "SELECT checkpoints.id AS id, conversations.id AS conversation, runs.id AS run, checkpoints.step,
                checkpoints.length AS length, name, ",
            $state,
            " AS state, saved_at
             FROM runs JOIN conversations ON conversations.number = runs.conversation
             JOIN checkpoints ON checkpoints.run = runs.number ",
            $which
        )
    };
}

pub(crate) async fn checkpoint(connection: &mut Session, id: &str) -> Result<Option<Checkpoint>, Error> {
    let query = query(select!("state", "WHERE checkpoints.id = ?")).bind(id);
    query.fetch_optional(connection).await?.as_ref().map(from_row).transpose()
}

pub(crate) async fn latest(connection: &mut Session, run: &str) -> Result<Option<Checkpoint>, Error> {
    let latest = select!("state", "WHERE runs.id = ? ORDER BY checkpoints.step DESC LIMIT 1");
    let query = query(latest).bind(run);
    query.fetch_optional(connection).await?.as_ref().map(from_row).transpose()
}

pub(crate) async fn list(
    connection: &mut Session,
    conversation: &str,
    limit: u64,
) -> Result<Vec<Checkpoint>, Error> {
    let list = select!(
        "'null'",
        "WHERE conversations.id = ? ORDER BY runs.number DESC, checkpoints.step DESC LIMIT ?"
    );
    let rows = query(list).bind(conversation).bind(whole_number(limit)).fetch_all(connection).await?;
    rows.iter().map(from_row).collect()
}

/// Returns the checkpoints of a run, in the order of their steps.
pub(crate) async fn of_run(connection: &mut Session, run: &str) -> Result<Vec<Checkpoint>, Error> {
    let of_run = select!("state", "WHERE runs.id = ? ORDER BY checkpoints.step");
    let rows = query(of_run).bind(run).fetch_all(connection).await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Checkpoint, Error> {
    let id: String = row.try_get("id")?;
    let state = read(|| format!("the state of the checkpoint {id:?}"), row.try_get("state")?)?;
    Ok(Checkpoint {
        conversation: row.try_get("conversation")?,
        run: row.try_get("run")?,
        step: counted(row, "step")?,
        length: counted(row, "length")?,
        name: row.try_get("name")?,
        state,
        saved_at: row.try_get("saved_at")?,
        id,
    })
}

/// A checkpoint to insert.
pub(crate) struct New<'a> {
    pub(crate) step: u64,
    pub(crate) length: u64,
    pub(crate) name: &'a str,
    pub(crate) state: &'a Json,
    pub(crate) saved_at: i64,
}

impl<'a> From<&'a Checkpoint> for New<'a> {
    fn from(checkpoint: &'a Checkpoint) -> Self {
        let Checkpoint { step, length, ref name, ref state, saved_at, .. } = *checkpoint;
        Self { step, length, name, state, saved_at }
    }
}

/// Inserts a checkpoint, with a new id if none is given.
pub(crate) async fn insert(
    connection: &mut Session,
    run: i64,
    id: Option<&str>,
    new: &New<'_>,
) -> Result<(), Error> {
    query(
        "INSERT INTO checkpoints (id, run, step, length, name, state, saved_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned))
    .bind(run)
    .bind(whole_number(new.step))
    .bind(whole_number(new.length))
    .bind(new.name)
    .bind(stored(new.state, AROUND_STATE)?)
    .bind(new.saved_at)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn is_known(connection: &mut Session, id: &str) -> Result<bool, Error> {
    let query = query_scalar("SELECT EXISTS (SELECT 1 FROM checkpoints WHERE id = ?)");
    query.bind(id).fetch_one(connection).await
}

macro_rules! prune {
    ($which:literal) => {
        concat!(
            "WITH ranked AS (
                SELECT number, status, row_number() OVER (PARTITION BY conversation ORDER BY number DESC) AS rank
                FROM runs ",
            $which,
            ")
             DELETE FROM checkpoints WHERE id IN (
                SELECT checkpoints.id FROM ranked JOIN checkpoints ON checkpoints.run = ranked.number
                WHERE rank > ?1 AND NOT (
                    step = (SELECT max(step) FROM checkpoints AS others WHERE others.run = ranked.number)
                    AND (rank <= ?2 OR status IN ('running', 'paused', 'failed'))
                )
             )"
        )
    };
}

pub(crate) async fn prune(
    connection: &mut Session,
    conversation: Option<&str>,
    keep: Prune,
) -> Result<u64, Error> {
    let (whole_runs, runs) = (whole_number(keep.whole_runs), whole_number(keep.runs));
    let query = match conversation {
        None => query(prune!("")).bind(whole_runs).bind(runs),
        // This uses the index, so runs of other conversations are not read.
        Some(id) => {
            let of_one = prune!("WHERE conversation = (SELECT number FROM conversations WHERE id = ?3)");
            query(of_one).bind(whole_runs).bind(runs).bind(id)
        }
    };
    query.execute(connection).await
}
