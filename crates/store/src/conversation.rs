//! Conversations: their messages, their runs, and a checkpoint of each run after each of its steps.
//!
//! A message has a position in its conversation, from 0, and is written once. A run is one turn of an agent.
//! A checkpoint is the state of a run after one of its steps, with the number of messages at that time.
//! Nothing here raises the generation of the store, because hosts do not depend on it.

use crate::clock::now;
use crate::error::StoreFuture;
use std::sync::LazyLock;
use std::time::Duration;
use valvehouse_json::Json;

/// The time without a heartbeat after which a run counts as abandoned.
pub const RUN_SILENCE: Duration = Duration::from_secs(30);

/// The key of the verified user in the `kept` values of a conversation; the value is a text. It is set when
/// the conversation starts and does not change.
pub const OWNER: &str = "verified_user";

/// A conversation without its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its id: the `chat_id` of requests.
    pub id: String,
    /// The agent of its latest run: the name of a configured model.
    pub agent: String,
    /// The number of messages.
    pub length: u64,
    /// The values that the agent keeps between runs, as an object: the summary, variables.
    pub kept: Json,
    /// The conversation that it was forked from, and the number of shared messages.
    pub forked_from: Option<(String, u64)>,
    /// The time of creation, in milliseconds since 1970.
    pub created_at: i64,
    /// The time of the last change, in milliseconds since 1970.
    pub updated_at: i64,
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// A host works on it, or ended while doing so: see [`Run::is_alive`].
    Running,
    /// It waits for a decision.
    Paused,
    /// It ended successfully.
    Done,
    /// It ended with an error, and can be resumed from its last checkpoint.
    Failed,
    /// A later run replaced it before it ended.
    Cancelled,
}

/// One turn of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Its conversation.
    pub conversation: String,
    /// Its status.
    pub status: RunStatus,
    /// The number of stored steps and takeovers. Every write names the number that it follows, so a process
    /// that was presumed dead cannot write anymore.
    pub step: u64,
    /// The current or last owner: the random name of a process.
    pub owner: String,
    /// The process id of its owner.
    pub pid: u32,
    /// The pending action that it waits for, or null.
    pub pending: Json,
    /// The reason why it failed, or "".
    pub error: String,
    /// The time of its owner's last heartbeat, in milliseconds since 1970.
    pub seen_at: i64,
    /// The time of creation, in milliseconds since 1970.
    pub created_at: i64,
    /// The time of the last change, in milliseconds since 1970.
    pub updated_at: i64,
}

/// The state of a run after one of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Its id; ids sort by time.
    pub id: String,
    /// Its conversation.
    pub conversation: String,
    /// Its run.
    pub run: String,
    /// The step of the run, from 1.
    pub step: u64,
    /// The number of messages in the conversation at that time.
    pub length: u64,
    /// The kind of step: `inlet`, `model`, `tool` …
    pub name: String,
    /// Everything needed to resume from here, except those messages.
    pub state: Json,
    /// The time of the step, in milliseconds since 1970.
    pub saved_at: i64,
}

/// One step of a run to be stored. Messages, checkpoint and status are written in one transaction.
#[derive(Debug, Clone)]
pub struct RunStep<'a> {
    /// The run.
    pub run: &'a str,
    /// The owner of the run.
    pub owner: &'a str,
    /// The expected previous step of the run; if it differs, another host has continued the run.
    pub expected: u64,
    /// The messages of this step.
    pub messages: &'a [Json],
    /// The name and state of the checkpoint; `None` stores none.
    pub checkpoint: Option<(&'a str, &'a Json)>,
    /// The status of the run after the step.
    pub status: RunStatus,
    /// The pending action that it waits for, or null.
    pub pending: &'a Json,
    /// The reason why it failed, or "".
    pub error: &'a str,
    /// The values that the agent keeps between runs; `None` leaves them unchanged.
    pub kept: Option<&'a Json>,
}

/// The start of a run.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    /// The new run's id.
    pub run: &'a str,
    /// The conversation; it is created if it does not exist.
    pub conversation: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// Its owner.
    pub owner: &'a str,
    /// The process id of its owner.
    pub pid: u32,
    /// The expected length of the conversation, 0 for a new one. If it differs, the run does not start,
    /// because messages were added meanwhile.
    pub expected: u64,
    /// The first messages.
    pub messages: &'a [Json],
    /// Its first checkpoint, if it is stored at once so that another host can continue right after a crash.
    pub first: Option<First<'a>>,
}

/// The state of a run before its first step.
#[derive(Debug, Clone, Copy)]
pub struct First<'a> {
    /// The checkpoint's name.
    pub name: &'a str,
    /// Its state.
    pub state: &'a Json,
    /// The values that the agent keeps between runs.
    pub kept: &'a Json,
}

/// The result of starting a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStart {
    /// It started; paused, failed or abandoned runs of this conversation can no longer be resumed.
    Begun(Run),
    /// Another host works on a run of this conversation.
    Busy(Run),
    /// The conversation has grown to this length meanwhile.
    Moved(u64),
}

/// The old checkpoints that [`Conversations::prune`] keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// The number of the latest runs per conversation that keep all steps. Older runs keep only the last
    /// step.
    pub whole_runs: u64,
    /// The number of the latest runs per conversation that keep their last step.
    pub runs: u64,
}

impl Default for Prune {
    fn default() -> Self {
        Self { whole_runs: 5, runs: 100 }
    }
}

/// The conversations in the store. Every method is one transaction, which is durable when it returns.
///
/// At most one run of a conversation is running, paused or failed: the one that can be resumed. Values nested
/// too deeply to be read again are rejected, also in an imported conversation.
pub trait Conversations: Send + Sync {
    /// Returns the conversation with this id.
    fn conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Conversation>>;

    /// Returns the conversations of an agent, or of all agents, newest message first.
    fn conversations<'a>(&'a self, agent: Option<&'a str>, limit: u64) -> StoreFuture<'a, Vec<Conversation>>;

    /// Returns the conversations of a verified user that changed before this time, newest first.
    fn conversations_of<'a>(
        &'a self,
        owner: &'a str,
        before: Option<i64>,
        limit: u64,
    ) -> StoreFuture<'a, Vec<Conversation>>;

    /// Returns the conversation with this id if it belongs to this verified user.
    fn conversation_of<'a>(&'a self, owner: &'a str, id: &'a str) -> StoreFuture<'a, Option<Conversation>>;

    /// Returns the messages of a range, in order; positions after the end are left out.
    fn messages<'a>(&'a self, conversation: &'a str, from: u64, to: u64) -> StoreFuture<'a, Vec<Json>>;

    /// Starts a run, unless another host works on one of this conversation.
    fn begin_run<'a>(&'a self, beginning: &'a NewRun<'a>) -> StoreFuture<'a, RunStart>;

    /// Takes over a run to continue it, and raises its step, so that later writes of its previous owner are
    /// rejected, even if that is the same process. Returns `None` if the run does not exist, has ended, is in
    /// progress, or is not at `step`.
    fn claim_run<'a>(
        &'a self,
        id: &'a str,
        step: u64,
        owner: &'a str,
        pid: u32,
    ) -> StoreFuture<'a, Option<Run>>;

    /// Stores a step of a run that its owner started or took over. Returns `false` and stores nothing if
    /// another host has continued the run or the run has ended.
    fn keep_step<'a>(&'a self, step: &'a RunStep<'a>) -> StoreFuture<'a, bool>;

    /// Records a heartbeat of the owner of a run, without waiting for the disk.
    fn touch_run<'a>(&'a self, id: &'a str, owner: &'a str) -> StoreFuture<'a, ()>;

    /// Returns the run with this id.
    fn run<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Run>>;

    /// Returns the runs of a conversation, or of all conversations, newest first, optionally only those with
    /// this status.
    fn runs<'a>(
        &'a self,
        conversation: Option<&'a str>,
        status: Option<RunStatus>,
        limit: u64,
    ) -> StoreFuture<'a, Vec<Run>>;

    /// Returns the checkpoint with this id.
    fn checkpoint<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Checkpoint>>;

    /// Returns the latest checkpoint of a run.
    fn latest_checkpoint<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Option<Checkpoint>>;

    /// Returns the checkpoints of a conversation without their states, newest first.
    fn checkpoints<'a>(&'a self, conversation: &'a str, limit: u64) -> StoreFuture<'a, Vec<Checkpoint>>;

    /// Creates an independent conversation from the first `length` messages of another, with these kept
    /// values. Returns `false` if the id is in use.
    ///
    /// # Errors
    /// Returns an error if the other conversation does not exist or is shorter.
    fn fork<'a>(&'a self, from: &'a str, length: u64, id: &'a str, kept: &'a Json) -> StoreFuture<'a, bool>;

    /// Returns a conversation with its messages, runs and checkpoints as one JSON object; `None` if it does
    /// not exist. The owners of its runs are left out, because they do not exist where it is imported.
    fn export<'a>(&'a self, conversation: &'a str) -> StoreFuture<'a, Option<Json>>;

    /// Imports an exported conversation under its own id or another one, completely or not at all. Returns
    /// `false` if the id is in use. Its runs and checkpoints keep their ids, unless one of them is in use
    /// here: then all get new ones.
    fn import<'a>(&'a self, exported: &'a Json, id: Option<&'a str>) -> StoreFuture<'a, bool>;

    /// Deletes old checkpoints of one conversation or of all, and returns their number. Messages are never
    /// deleted, and neither is the last checkpoint of a run that can be resumed.
    fn prune<'a>(&'a self, conversation: Option<&'a str>, keep: Prune) -> StoreFuture<'a, u64>;

    /// Deletes a conversation with everything that belongs to it. Returns `false` if it does not exist.
    fn forget_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, bool>;
}

impl Run {
    /// Returns `true` if a host works on it: its owner sent a recent heartbeat, and its process exists.
    pub fn is_alive(&self) -> bool {
        let silence = now().abs_diff(self.seen_at);
        self.status == RunStatus::Running
            && u128::from(silence) < RUN_SILENCE.as_millis()
            && lives(self.pid)
            && !self.is_of_a_namesake()
    }

    /// Returns `true` if an earlier process with the same id owned it: in a container, every host has the
    /// same process id.
    fn is_of_a_namesake(&self) -> bool {
        self.pid == std::process::id() && self.seen_at < *OPENED
    }
}

/// The time at which this process opened its first store; it cannot own an older run.
static OPENED: LazyLock<i64> = LazyLock::new(now);

/// Returns the time at which this process opened its first store, which is now on the first call.
pub(super) fn opened() -> i64 {
    *OPENED
}

/// Returns `true` if the process may exist on this computer.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn lives(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return true };
    // A process of another user exists, although it may not be signaled.
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn lives(_: u32) -> bool {
    true
}

impl RunStatus {
    /// All values.
    pub const ALL: [Self; 5] = [Self::Running, Self::Paused, Self::Done, Self::Failed, Self::Cancelled];

    /// Returns `true` if a run of this status can be resumed when no host works on it.
    pub const fn can_go_on(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Failed)
    }

    /// Returns the name of the status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}
