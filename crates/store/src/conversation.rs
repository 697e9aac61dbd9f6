//! Conversations: their messages, their runs, and a checkpoint of each run after each of its steps.
//!
//! A message has a position in its conversation, from 0, and is written once. A run is one turn of an agent.
//! A checkpoint is the state of a run after one of its steps, with the number of messages at that time.
//! Nothing here raises the generation of the store, because hosts do not depend on it.

use crate::clock::now;
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

/// The old checkpoints that [`Store::prune`](crate::Store::prune) keeps.
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
