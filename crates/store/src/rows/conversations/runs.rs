//! The rows of runs.

use super::rows::{counted, read, refused, stored, whole_number};
use super::{checkpoints, messages, process};
use crate::clock::now;
use crate::conversation::{Conversation, First, NewRun, Run, RunStart, RunStatus, RunStep};
use crate::export::AROUND_PENDING;
use crate::sql::{Row, Session, query, query_scalar};
use sqlx::Error;
use valvehouse_json::Json;

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT runs.id AS id, conversations.id AS conversation, status, step, owner, pid, pending, error,
                seen_at, runs.created_at AS created_at, runs.updated_at AS updated_at
             FROM runs JOIN conversations ON conversations.number = runs.conversation ",
            $which
        )
    };
}

pub(crate) async fn run(connection: &mut Session, id: &str) -> Result<Option<Run>, Error> {
    let row = query(select!("WHERE runs.id = ?")).bind(id).fetch_optional(connection).await?;
    row.as_ref().map(from_row).transpose()
}

pub(crate) async fn runs(
    connection: &mut Session,
    conversation: Option<&str>,
    status: Option<RunStatus>,
    limit: u64,
) -> Result<Vec<Run>, Error> {
    let status = status.map(RunStatus::name);
    let query = match (conversation, status) {
        (None, None) => query(select!("ORDER BY runs.number DESC LIMIT ?")),
        (None, Some(status)) => {
            query(select!("WHERE status = ? ORDER BY runs.number DESC LIMIT ?")).bind(status)
        }
        (Some(id), None) => {
            query(select!("WHERE conversations.id = ? ORDER BY runs.number DESC LIMIT ?")).bind(id)
        }
        (Some(id), Some(status)) => {
            query(select!("WHERE conversations.id = ? AND status = ? ORDER BY runs.number DESC LIMIT ?"))
                .bind(id)
                .bind(status)
        }
    };
    let rows = query.bind(whole_number(limit)).fetch_all(connection).await?;
    rows.iter().map(from_row).collect()
}

/// Returns the run of a conversation that can be resumed.
async fn open(connection: &mut Session, conversation: i64) -> Result<Option<Run>, Error> {
    let open = select!("WHERE runs.conversation = ? AND status IN ('running', 'paused', 'failed')");
    let row = query(open).bind(conversation).fetch_optional(connection).await?;
    row.as_ref().map(from_row).transpose()
}

fn from_row(row: &Row) -> Result<Run, Error> {
    let (id, status): (String, String) = (row.try_get("id")?, row.try_get("status")?);
    let pending = read(|| format!("the pending calls of the run {id:?}"), row.try_get("pending")?)?;
    let status = RunStatus::from_name(&status)
        .ok_or_else(|| refused(format!("the run {id:?} has the unknown status {status:?}")))?;
    Ok(Run {
        conversation: row.try_get("conversation")?,
        status,
        step: counted(row, "step")?,
        owner: row.try_get("owner")?,
        pid: process::read(row.try_get("pid")?),
        pending,
        error: row.try_get("error")?,
        seen_at: row.try_get("seen_at")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        id,
    })
}

pub(crate) async fn begin(connection: &mut Session, beginning: &NewRun<'_>) -> Result<RunStart, Error> {
    let found = messages::find(connection, beginning.conversation).await?;
    let open = match found {
        Some((conversation, _)) => open(connection, conversation).await?,
        None => None,
    };
    if let Some(open) = open.as_ref().filter(|open| open.is_alive()) {
        return Ok(RunStart::Busy(open.clone()));
    }
    let length = found.map_or(0, |(_, length)| length);
    if length != beginning.expected {
        return Ok(RunStart::Moved(length));
    }
    let time = now();
    if let Some(open) = &open
        && !cancel(connection, open, time).await?
    {
        // Another host has just resumed it.
        let going_on = run(connection, &open.id).await?;
        return Ok(RunStart::Busy(going_on.unwrap_or_else(|| open.clone())));
    }
    let conversation = match found {
        Some((conversation, _)) => conversation,
        None => messages::insert(connection, &new_conversation(beginning, time)).await?,
    };
    hold_with(connection, conversation, beginning.agent, time).await?;
    let length = messages::append(connection, conversation, length, beginning.messages).await?;
    let run = new_run(beginning, time);
    let number = insert(connection, conversation, &run).await?;
    if let Some(First { name, state, kept }) = beginning.first {
        let new = checkpoints::New { step: run.step, length, name, state, saved_at: time };
        checkpoints::insert(connection, number, None, &new).await?;
        keep_of(connection, conversation, Some(kept), time).await?;
    }
    Ok(RunStart::Begun(run))
}

fn new_conversation(beginning: &NewRun<'_>, time: i64) -> Conversation {
    Conversation {
        id: beginning.conversation.to_owned(),
        agent: beginning.agent.to_owned(),
        length: 0,
        kept: Json::object(),
        forked_from: None,
        created_at: time,
        updated_at: time,
    }
}

fn new_run(beginning: &NewRun<'_>, time: i64) -> Run {
    Run {
        id: beginning.run.to_owned(),
        conversation: beginning.conversation.to_owned(),
        status: RunStatus::Running,
        step: u64::from(beginning.first.is_some()),
        owner: beginning.owner.to_owned(),
        pid: beginning.pid,
        pending: Json::Null,
        error: String::new(),
        seen_at: time,
        created_at: time,
        updated_at: time,
    }
}

async fn hold_with(connection: &mut Session, conversation: i64, agent: &str, time: i64) -> Result<(), Error> {
    query("UPDATE conversations SET agent = ?, updated_at = ? WHERE number = ?")
        .bind(agent)
        .bind(time)
        .bind(conversation)
        .execute(connection)
        .await?;
    Ok(())
}

/// Cancels a run that could be resumed. Returns `false` if it changed since it was read.
async fn cancel(connection: &mut Session, open: &Run, time: i64) -> Result<bool, Error> {
    let changed = query(
        "UPDATE runs SET status = 'cancelled', pending = 'null', updated_at = ?
         WHERE id = ? AND status = ? AND step = ? AND owner = ? AND seen_at = ?",
    )
    .bind(time)
    .bind(&open.id)
    .bind(open.status.name())
    .bind(whole_number(open.step))
    .bind(&open.owner)
    .bind(open.seen_at)
    .execute(connection)
    .await?;
    Ok(changed > 0)
}

/// Inserts a run, and returns its number.
pub(crate) async fn insert(connection: &mut Session, conversation: i64, run: &Run) -> Result<i64, Error> {
    if is_known(connection, &run.id).await? {
        return Err(refused(format!("the run {:?} already exists; use another id for the new one", run.id)));
    }
    query_scalar(
        "INSERT INTO runs (id, conversation, status, step, owner, pid, pending, error, seen_at, created_at,
            updated_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
    )
    .bind(&run.id)
    .bind(conversation)
    .bind(run.status.name())
    .bind(whole_number(run.step))
    .bind(&run.owner)
    .bind(process::stored(connection, run.pid))
    .bind(stored(&run.pending, AROUND_PENDING)?)
    .bind(&run.error)
    .bind(run.seen_at)
    .bind(run.created_at)
    .bind(run.updated_at)
    .fetch_one(connection)
    .await
}

pub(crate) async fn is_known(connection: &mut Session, id: &str) -> Result<bool, Error> {
    let query = query_scalar("SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?)");
    query.bind(id).fetch_one(connection).await
}

pub(crate) async fn claim(
    connection: &mut Session,
    id: &str,
    step: u64,
    owner: &str,
    pid: u32,
) -> Result<Option<Run>, Error> {
    let Some(run) = run(connection, id).await? else { return Ok(None) };
    if run.step != step || !run.status.can_go_on() || run.is_alive() {
        return Ok(None);
    }
    let time = now();
    // The pending action stays until the next step is stored, because the claimant may crash before. The
    // raised step invalidates writes in progress of any owner.
    let claimed = query(
        "UPDATE runs SET status = 'running', step = step + 1, error = '', owner = ?, pid = ?, seen_at = ?,
            updated_at = ?
         WHERE id = ? AND status = ? AND step = ? AND owner = ? AND seen_at = ?",
    )
    .bind(owner)
    .bind(process::stored(connection, pid))
    .bind(time)
    .bind(time)
    .bind(id)
    .bind(run.status.name())
    .bind(whole_number(run.step))
    .bind(&run.owner)
    .bind(run.seen_at)
    .execute(connection)
    .await?;
    Ok((claimed > 0).then_some(Run {
        status: RunStatus::Running,
        step: run.step + 1,
        error: String::new(),
        owner: owner.to_owned(),
        pid,
        seen_at: time,
        updated_at: time,
        ..run
    }))
}

pub(crate) async fn keep(connection: &mut Session, step: &RunStep<'_>) -> Result<bool, Error> {
    let time = now();
    let row = query(
        "UPDATE runs SET status = ?, step = step + 1, pending = ?, error = ?, seen_at = ?, updated_at = ?
         WHERE id = ? AND owner = ? AND step = ? AND status = 'running'
         RETURNING number, conversation",
    )
    .bind(step.status.name())
    .bind(stored(step.pending, AROUND_PENDING)?)
    .bind(step.error)
    .bind(time)
    .bind(time)
    .bind(step.run)
    .bind(step.owner)
    .bind(whole_number(step.expected))
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(false) };
    let (run, conversation): (i64, i64) = (row.try_get("number")?, row.try_get("conversation")?);
    let length = keep_spoken(connection, conversation, step, time).await?;
    if let Some((name, state)) = step.checkpoint {
        let new = checkpoints::New { step: step.expected + 1, length, name, state, saved_at: time };
        checkpoints::insert(connection, run, None, &new).await?;
    }
    Ok(true)
}

/// Stores the messages and the kept values, and returns the new length.
async fn keep_spoken(
    connection: &mut Session,
    conversation: i64,
    step: &RunStep<'_>,
    time: i64,
) -> Result<u64, Error> {
    let length = keep_of(connection, conversation, step.kept, time).await?;
    messages::append(connection, conversation, length, step.messages).await
}

/// Stores the kept values if they are given, and returns the length.
async fn keep_of(
    connection: &mut Session,
    conversation: i64,
    kept: Option<&Json>,
    time: i64,
) -> Result<u64, Error> {
    let owner = kept.and_then(messages::owner_in);
    let kept = kept.map(messages::stored_kept).transpose()?;
    let row = query(
        "UPDATE conversations SET updated_at = ?, kept = coalesce(?, kept), verified_user = coalesce(verified_user, ?)
         WHERE number = ? RETURNING length",
    )
    .bind(time)
    .bind(kept)
    .bind(owner)
    .bind(conversation)
    .fetch_one(connection)
    .await?;
    counted(&row, "length")
}

pub(crate) async fn touch(connection: &mut Session, id: &str, owner: &str) -> Result<(), Error> {
    query("UPDATE runs SET seen_at = ? WHERE id = ? AND status = 'running' AND owner = ?")
        .bind(now())
        .bind(id)
        .bind(owner)
        .execute(connection)
        .await?;
    Ok(())
}
