//! The runs of conversations.

use super::database::Store;
use super::{checkpoints, conversations, process};
use crate::clock::now;
use crate::conversation::{Conversation, First, NewRun, Run, RunStart, RunStatus, RunStep};
use crate::error::StoreResult;
use crate::export::AROUND_PENDING;
use crate::rows::json::{read, refused, stored};
use crate::sql::{Lock, Query, Row, Session, Value, columns, query, query_text, values};
use valvehouse_json::Json;

/// The runs of conversations.
impl Store {
    /// Starts a run, unless another host works on one of this conversation.
    pub async fn begin_run(&self, beginning: &NewRun<'_>) -> StoreResult<RunStart> {
        self.work("start a run", async {
            let mut transaction = self.begin(Lock::Conversation(beginning.conversation)).await?;
            let start = begin(&mut transaction, beginning).await?;
            transaction.commit_with(start).await
        })
        .await
    }

    /// Takes over a run to continue it, and raises its step, so that later writes of its previous owner are
    /// rejected, even if that is the same process. Returns `None` if the run does not exist, has ended, is in
    /// progress, or is not at `step`.
    pub async fn claim_run(&self, id: &str, step: u64, owner: &str, pid: u32) -> StoreResult<Option<Run>> {
        self.work("resume a run", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let Some(run) = fetch(&mut transaction, by_id(id)).await? else { return Ok(None) };
            if run.step != step || !run.status.can_go_on() || run.is_alive() {
                return Ok(None);
            }
            let time = now();
            // The pending action stays until the next step is stored, because the claimant may crash before.
            // The raised step invalidates writes in progress of any owner.
            let claim = "UPDATE runs SET status = 'running', step = step + 1, error = '', owner = ?, pid = ?,
                    seen_at = ?, updated_at = ?
                 WHERE id = ? AND status = ? AND step = ? AND owner = ? AND seen_at = ?";
            let claimed = query(claim)
                .bind_all(values![owner, process::stored(&transaction, pid), time, time])
                .bind_all(values![id, run.status.name(), run.step, &run.owner, run.seen_at])
                .execute(&mut transaction)
                .await?;
            let run = Run {
                status: RunStatus::Running,
                step: run.step + 1,
                error: String::new(),
                owner: owner.to_owned(),
                pid,
                seen_at: time,
                updated_at: time,
                ..run
            };
            transaction.commit_with((claimed > 0).then_some(run)).await
        })
        .await
    }

    /// Stores a step of a run that its owner started or took over. Returns `false` and stores nothing if
    /// another host has continued the run or the run has ended.
    pub async fn keep_step(&self, step: &RunStep<'_>) -> StoreResult<bool> {
        self.work("store a step of a run", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let time = now();
            let update = "UPDATE runs
                 SET status = ?, step = step + 1, pending = ?, error = ?, seen_at = ?, updated_at = ?
                 WHERE id = ? AND owner = ? AND step = ? AND status = 'running'
                 RETURNING number, conversation";
            let row = query(update)
                .bind_all(values![step.status.name(), stored(step.pending, AROUND_PENDING)?, step.error])
                .bind_all(values![time, time, step.run, step.owner, step.expected])
                .fetch_optional(&mut transaction)
                .await?;
            let Some(row) = row else { return Ok(false) };
            let (run, conversation): (i64, i64) = (row.try_get("number")?, row.try_get("conversation")?);
            let length = keep(&mut transaction, conversation, step.kept, time).await?;
            let length = conversations::append(&mut transaction, conversation, length, step.messages).await?;
            if let Some((name, state)) = step.checkpoint {
                let new = checkpoints::New { step: step.expected + 1, length, name, state, saved_at: time };
                checkpoints::insert(&mut transaction, run, None, &new).await?;
            }
            transaction.commit_with(true).await
        })
        .await
    }

    /// Records a heartbeat of the owner of a run, without waiting for the disk.
    pub async fn touch_run(&self, id: &str, owner: &str) -> StoreResult<()> {
        let touch = query("UPDATE runs SET seen_at = ? WHERE id = ? AND status = 'running' AND owner = ?");
        let touch = touch.bind_all(values![now(), id, owner]);
        self.execute("record that a run is alive", touch).await.map(drop)
    }

    /// Returns the run with this id.
    pub async fn run(&self, id: &str) -> StoreResult<Option<Run>> {
        Ok(self.fetch("read a run", by_id(id), from_row).await?.pop())
    }

    /// Returns the runs of a conversation, or of all conversations, newest first, optionally only those with
    /// this status.
    pub async fn runs(
        &self,
        conversation: Option<&str>,
        status: Option<RunStatus>,
        limit: u64,
    ) -> StoreResult<Vec<Run>> {
        self.fetch("list runs", latest(conversation, status, limit), from_row).await
    }
}

fn select<'q>(which: &str, values: impl IntoIterator<Item = Value<'q>>) -> Query<'q> {
    let text = format!(
        "SELECT runs.id AS id, conversations.id AS conversation, status, step, owner, pid, pending, error,
            seen_at, runs.created_at AS created_at, runs.updated_at AS updated_at
         FROM runs JOIN conversations ON conversations.number = runs.conversation {which}"
    );
    query_text(text).bind_all(values)
}

fn by_id(id: &str) -> Query<'_> {
    select("WHERE runs.id = ?", values![id])
}

/// Selects the latest runs, newest first.
fn latest<'q>(conversation: Option<&'q str>, status: Option<RunStatus>, limit: u64) -> Query<'q> {
    const NEWEST: &str = "ORDER BY runs.number DESC LIMIT ?";
    let (which, values) = match (conversation, status.map(RunStatus::name)) {
        (None, None) => ("", Vec::new()),
        (None, Some(status)) => ("WHERE status = ?", vec![status]),
        (Some(id), None) => ("WHERE conversations.id = ?", vec![id]),
        (Some(id), Some(status)) => ("WHERE conversations.id = ? AND status = ?", vec![id, status]),
    };
    let values = values.into_iter().map(Value::from).chain(values![limit]);
    select(&format!("{which} {NEWEST}"), values)
}

fn from_row(row: &Row) -> sqlx::Result<Run> {
    let (id, status): (String, String) = (row.try_get("id")?, row.try_get("status")?);
    let pending = read(|| format!("the pending calls of the run {id:?}"), row.try_get("pending")?)?;
    let status = RunStatus::from_name(&status)
        .ok_or_else(|| refused(format!("the run {id:?} has the unknown status {status:?}")))?;
    let (step, pid) = (row.count("step")?, process::read(row.try_get("pid")?));
    Ok(columns!(row => Run { conversation, owner, error, seen_at, created_at, updated_at;
        id, status, step, pid, pending
    }))
}

async fn fetch(session: &mut Session, query: Query<'_>) -> sqlx::Result<Option<Run>> {
    query.fetch_optional(session).await?.as_ref().map(from_row).transpose()
}

/// Returns the runs of a conversation, oldest first.
pub(super) async fn of_conversation(session: &mut Session, id: &str) -> sqlx::Result<Vec<Run>> {
    let query = select("WHERE conversations.id = ? ORDER BY runs.number", values![id]);
    query.fetch_all(session).await?.iter().map(from_row).collect()
}

async fn begin(session: &mut Session, beginning: &NewRun<'_>) -> sqlx::Result<RunStart> {
    let found = conversations::number_of(session, beginning.conversation).await?;
    // The run of the conversation that can be resumed.
    let open = match found {
        Some((conversation, _)) => {
            let which = "WHERE runs.conversation = ? AND status IN ('running', 'paused', 'failed')";
            fetch(session, select(which, values![conversation])).await?
        }
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
        && !cancel(session, open, time).await?
    {
        // Another host has just resumed it.
        let going_on = fetch(session, by_id(&open.id)).await?;
        return Ok(RunStart::Busy(going_on.unwrap_or_else(|| open.clone())));
    }
    let conversation = match found {
        Some((conversation, _)) => conversation,
        None => conversations::insert(session, &new_conversation(beginning, time)).await?,
    };
    let update = query("UPDATE conversations SET agent = ?, updated_at = ? WHERE number = ?");
    update.bind_all(values![beginning.agent, time, conversation]).execute(session).await?;
    let length = conversations::append(session, conversation, length, beginning.messages).await?;
    let run = new_run(beginning, time);
    let number = insert(session, conversation, &run).await?;
    if let Some(First { name, state, kept }) = beginning.first {
        let new = checkpoints::New { step: run.step, length, name, state, saved_at: time };
        checkpoints::insert(session, number, None, &new).await?;
        keep(session, conversation, Some(kept), time).await?;
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

/// Cancels a run that could be resumed. Returns `false` if it changed since it was read.
async fn cancel(session: &mut Session, open: &Run, time: i64) -> sqlx::Result<bool> {
    let cancel = "UPDATE runs SET status = 'cancelled', pending = 'null', updated_at = ?
         WHERE id = ? AND status = ? AND step = ? AND owner = ? AND seen_at = ?";
    let values = values![time, &open.id, open.status.name(), open.step, &open.owner, open.seen_at];
    Ok(query(cancel).bind_all(values).execute(session).await? > 0)
}

/// Inserts a run, and returns its number.
pub(super) async fn insert(session: &mut Session, conversation: i64, run: &Run) -> sqlx::Result<i64> {
    if is_known(session, &run.id).await? {
        return Err(refused(format!("the run {:?} already exists; use another id for the new one", run.id)));
    }
    let text = "INSERT INTO runs
         (id, conversation, status, step, owner, pid, pending, error, seen_at, created_at, updated_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number";
    query(text)
        .bind_all(values![&run.id, conversation, run.status.name(), run.step, &run.owner])
        .bind_all(values![process::stored(session, run.pid), stored(&run.pending, AROUND_PENDING)?])
        .bind_all(values![&run.error, run.seen_at, run.created_at, run.updated_at])
        .fetch_scalar(session)
        .await
}

pub(super) async fn is_known(session: &mut Session, id: &str) -> sqlx::Result<bool> {
    query("SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?)").bind(id).fetch_scalar(session).await
}

/// Stores the kept values of a conversation if they are given, and returns its length.
async fn keep(session: &mut Session, conversation: i64, kept: Option<&Json>, time: i64) -> sqlx::Result<u64> {
    let owner = kept.and_then(conversations::owner_in);
    let kept = kept.map(conversations::stored_kept).transpose()?;
    let text = "UPDATE conversations
         SET updated_at = ?, kept = coalesce(?, kept), verified_user = coalesce(verified_user, ?)
         WHERE number = ? RETURNING length";
    let row = query(text).bind_all(values![time, kept, owner, conversation]).fetch_one(session).await?;
    row.count("length")
}
