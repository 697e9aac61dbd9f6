//! The journal of a run: the state stored after each step.

use super::saved::RunSnapshot;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use valvehouse_core::chat::{ModelCall, message, response};
use valvehouse_core::context::Turn;
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{Journal, Next, Progress};
use valvehouse_json::Json;
use valvehouse_store::RunStatus;

/// An entry of the journal, stored as a whole or not at all.
pub(super) struct JournalEntry<'a> {
    /// The name of the step.
    pub(super) name: &'a str,
    /// The state of the run; `None` if it is unchanged.
    pub(super) saved: Option<&'a RunSnapshot>,
    /// The messages of the step.
    pub(super) messages: &'a [Json],
    /// The new status of the run.
    pub(super) status: RunStatus,
    /// The pending action, or null.
    pub(super) pending: &'a Json,
    /// The error message of a failed run, or "".
    pub(super) error: &'a str,
}

/// A store for the journal of a run.
pub(super) trait Keeper: Send + Sync {
    /// Stores an entry.
    fn keep<'a>(&'a self, kept: JournalEntry<'a>) -> BoxFuture<'a, Result<(), Error>>;

    /// Returns the id with which the run can be resumed.
    fn run(&self) -> &str;

    /// Seals the results of host calls for the store, because they may contain secrets.
    fn seal(&self, host_calls: Json) -> Json {
        host_calls
    }
}

/// The journal of one run.
pub(super) struct RunJournal<'a> {
    keeper: &'a dyn Keeper,
    stand: Mutex<Stand>,
}

/// The state of the latest step.
struct Stand {
    saved: RunSnapshot,
    /// The number of stored messages.
    stored_messages: usize,
    /// The pending action of a paused run.
    pending: Json,
}

impl<'a> RunJournal<'a> {
    /// Creates the journal of a run of which this many new messages are already stored.
    pub(super) fn new(keeper: &'a dyn Keeper, saved: RunSnapshot, stored_messages: usize) -> Self {
        Self { keeper, stand: Mutex::new(Stand { saved, stored_messages, pending: Json::Null }) }
    }

    /// Returns the pending action of a paused run, otherwise null.
    pub(super) fn pending(&self) -> Json {
        self.stand.lock().pending.clone()
    }

    /// Returns the state of the run after its last step.
    pub(super) fn saved(&self) -> RunSnapshot {
        self.stand.lock().saved.clone()
    }

    /// Stores the message added by a decision before the run resumes: the result of an unfinished tool.
    pub(super) async fn decided(&self) -> Result<(), Error> {
        let (before, kept_before) = {
            let stand = self.stand.lock();
            (stand.saved.clone(), stand.stored_messages)
        };
        let all_messages = before.progress.transcript.items();
        let messages = all_messages.get(kept_before..).unwrap_or(&[]);
        if messages.is_empty() {
            return Ok(());
        }
        let saved = RunSnapshot { length: before.length + messages.len() as u64, ..before };
        let (name, status, pending) = ("decided", RunStatus::Running, Json::Null);
        let kept = JournalEntry { name, saved: Some(&saved), messages, status, pending: &pending, error: "" };
        self.keeper.keep(kept).await?;
        let mut stand = self.stand.lock();
        (stand.saved, stand.stored_messages) = (saved, all_messages.len());
        Ok(())
    }

    /// Records a failure; the run can be retried from its last step.
    pub(super) async fn fail(&self, error: &Error) -> Result<(), Error> {
        let (error, status, pending) = (error.to_string(), RunStatus::Failed, Json::Null);
        let kept = JournalEntry {
            name: "failed",
            saved: None,
            messages: &[],
            status,
            pending: &pending,
            error: &error,
        };
        self.keeper.keep(kept).await
    }

    async fn step(&self, progress: &Progress, turn: &Turn) -> Result<(), Error> {
        let is_end = progress.next == Next::End;
        let (before, kept_before) = {
            let stand = self.stand.lock();
            (stand.saved.clone(), stand.stored_messages)
        };
        let all_messages = progress.transcript.items();
        let mut messages = all_messages.get(kept_before..).unwrap_or(&[]).to_vec();
        if is_end {
            messages.push(final_message(&progress.response));
        }
        let saved = before.of(progress, turn, before.length + messages.len() as u64);
        let status = if is_end { RunStatus::Done } else { RunStatus::Running };
        let (name, pending) = (step_name(progress), Json::Null);
        let kept = JournalEntry {
            name,
            saved: Some(&saved),
            messages: &messages,
            status,
            pending: &pending,
            error: "",
        };
        self.keeper.keep(kept).await?;
        let mut stand = self.stand.lock();
        (stand.saved, stand.stored_messages) = (saved, all_messages.len());
        Ok(())
    }
}

impl Journal for RunJournal<'_> {
    fn keep<'a>(&'a self, progress: &'a Progress, turn: &'a Turn) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.step(progress, turn))
    }

    fn pause<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<Json, Error>> {
        Box::pin(async move {
            let pending_question = turn
                .pauses()
                .and_then(|pauses| Some((pauses.pending()?, pauses.answers(), pauses.host_calls())));
            let (pending_question, answers, host_calls) = pending_question
                .ok_or_else(|| Error::Host("a turn paused without a pending action".into()))?;
            let pending = super::pending::of_question(&pending_question);
            let host_calls = self.keeper.seal(host_calls);
            let saved = RunSnapshot { answers, host_calls, pending: pending.deep_clone(), ..self.saved() };
            let (name, status) = ("paused", RunStatus::Paused);
            let kept = JournalEntry {
                name,
                saved: Some(&saved),
                messages: &[],
                status,
                pending: &pending,
                error: "",
            };
            self.keeper.keep(kept).await?;
            let answer = super::pending::answer(self.keeper.run(), &pending, turn);
            let mut stand = self.stand.lock();
            (stand.pending, stand.saved) = (pending, saved);
            Ok(answer)
        })
    }

    fn starting<'a>(
        &'a self,
        call: &'a ModelCall,
        arguments: &'a Json,
        _: &'a Progress,
        _: &'a Turn,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let in_flight = Json::from([
                ("id", call.id.as_str().into()),
                ("name", call.name.as_str().into()),
                ("arguments", arguments.deep_clone()),
            ]);
            let saved = RunSnapshot { in_flight, ..self.saved() };
            let status = RunStatus::Running;
            let pending = Json::Null;
            let kept = JournalEntry {
                name: "tool_start",
                saved: Some(&saved),
                messages: &[],
                status,
                pending: &pending,
                error: "",
            };
            self.keeper.keep(kept).await
        })
    }
}

/// Returns the name of a finished step, derived from the next one.
fn step_name(progress: &Progress) -> &'static str {
    match progress.next {
        Next::Inlet => "begin",
        Next::Model if progress.iterations == 0 => "inlet",
        Next::PostChat | Next::Outlet => "model",
        Next::Tools
            if progress
                .messages()
                .at(-1)
                .is_some_and(|last| last.text("role").as_deref() == Some("tool")) =>
        {
            "tool"
        }
        Next::Tools => "model",
        Next::Model => "tools",
        Next::End => "end",
    }
}

/// Returns the message that the conversation stores for an answer.
fn final_message(answer: &Json) -> Json {
    match response::message_of(answer) {
        message @ Json::Object(_) => message,
        _ => message::assistant(""),
    }
}
