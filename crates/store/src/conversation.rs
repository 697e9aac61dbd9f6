//! Conversations: everything that was said, the runs that say it, and where each run stood after each
//! of its steps.
//!
//! A message has a place in its conversation, from 0, and is written once. A run is one turn of an
//! agent; a checkpoint is a run after one of its steps, and names how many messages there were then.
//! Nothing here raises the store's generation, because hosts do not depend on it.

use crate::clock::now;
use crate::error::StoreFuture;
use std::sync::LazyLock;
use std::time::Duration;
use valvehouse_json::Json;

/// A run whose owner was not heard of for this long counts as left.
pub const RUN_SILENCE: Duration = Duration::from_secs(30);

/// A conversation without its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its id: the `chat_id` of requests.
    pub id: String,
    /// The agent it is held with, that of its latest run: a model's name in the configuration.
    pub agent: String,
    /// The number of messages.
    pub length: u64,
    /// The values that an agent keeps from run to run, an object: the summary, variables.
    pub kept: Json,
    /// The conversation and number of messages that it shares with another.
    pub forked_from: Option<(String, u64)>,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// In milliseconds since 1970.
    pub updated_at: i64,
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// A host works on it, or ended while it did: see [`Run::is_alive`].
    Running,
    /// It waits for a person.
    Paused,
    /// It came to its end.
    Done,
    /// It ended with an error; it can be tried again from its last checkpoint.
    Failed,
    /// A later run took its place before it ended.
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
    /// The number of stored steps and takeovers. Every write names the number that it follows, so that whoever was
    /// taken for dead writes nothing more.
    pub step: u64,
    /// The present or last owner, a host's own random name.
    pub owner: String,
    /// Its process.
    pub pid: u32,
    /// The request that it waits for, or null.
    pub pending: Json,
    /// The reason it failed, or "".
    pub error: String,
    /// The time when its owner was last heard of, in milliseconds since 1970.
    pub seen_at: i64,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// In milliseconds since 1970.
    pub updated_at: i64,
}

/// A run after one of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Its id; later ones sort later.
    pub id: String,
    /// Its conversation.
    pub conversation: String,
    /// Its run.
    pub run: String,
    /// The step of the run, from 1.
    pub step: u64,
    /// The number of messages that the conversation had.
    pub length: u64,
    /// The kind of step: `inlet`, `model`, `tool` …
    pub name: String,
    /// Everything needed to go on from here, beside those messages.
    pub state: Json,
    /// In milliseconds since 1970.
    pub saved_at: i64,
}

/// One step of a run, to be kept: messages, checkpoint and standing go in together or not at all.
#[derive(Debug, Clone)]
pub struct RunStep<'a> {
    /// The run.
    pub run: &'a str,
    /// The owner of the run.
    pub owner: &'a str,
    /// The previous step of the run; if it differs, another host has continued the run.
    pub expected: u64,
    /// The messages of this step.
    pub messages: &'a [Json],
    /// The checkpoint's name; none keeps no checkpoint.
    pub checkpoint: Option<(&'a str, &'a Json)>,
    /// The status of the run after it.
    pub status: RunStatus,
    /// The request that it waits for, or null.
    pub pending: &'a Json,
    /// The reason it failed, or "".
    pub error: &'a str,
    /// The values that the agent keeps from now on, where they changed.
    pub kept: Option<&'a Json>,
}

/// The beginning of a run.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    /// The new run's id.
    pub run: &'a str,
    /// The conversation, which is made where it is not there.
    pub conversation: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// Its owner.
    pub owner: &'a str,
    /// Its process.
    pub pid: u32,
    /// The length the conversation must have; 0 for one that is new. Where it has another, nothing
    /// begins: somebody said something in between.
    pub expected: u64,
    /// The first messages.
    pub messages: &'a [Json],
    /// Its first step, if it is stored at once, so that another host can continue right after a crash.
    pub first: Option<First<'a>>,
}

/// The state of a run before its first step.
#[derive(Debug, Clone, Copy)]
pub struct First<'a> {
    /// The checkpoint's name.
    pub name: &'a str,
    /// Its state.
    pub state: &'a Json,
    /// The values that the agent keeps from now on.
    pub kept: &'a Json,
}

/// The result of beginning a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStart {
    /// It started; paused, failed or abandoned runs of this conversation can no longer be resumed.
    Begun(Run),
    /// Another host works on a run of this conversation.
    Busy(Run),
    /// The conversation has grown meanwhile.
    Moved(u64),
}

/// The old checkpoints that may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// Of each conversation, runs whose every step stays, the newest first. Of older ones only the last
    /// step stays.
    pub whole_runs: u64,
    /// Of each conversation, runs whose last step stays.
    pub runs: u64,
}

impl Default for Prune {
    fn default() -> Self {
        Self { whole_runs: 5, runs: 100 }
    }
}

/// The store of conversations. Every method is one transaction, on disk when it returns.
///
/// Of each conversation one run at most is running, paused or failed: the one that can go on. Values
/// nested too deep to be read back, also in an exported conversation, are refused.
pub trait Conversations: Send + Sync {
    /// The conversation of that id.
    fn conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Conversation>>;

    /// The conversations of an agent, or of all, by their last message, newest first.
    fn conversations<'a>(&'a self, agent: Option<&'a str>, limit: u64) -> StoreFuture<'a, Vec<Conversation>>;

    /// The messages of a range, in order; positions after the end are left out.
    fn messages<'a>(&'a self, conversation: &'a str, from: u64, to: u64) -> StoreFuture<'a, Vec<Json>>;

    /// Starts a run, unless another host works on one of this conversation.
    fn begin_run<'a>(&'a self, beginning: &'a NewRun<'a>) -> StoreFuture<'a, RunStart>;

    /// Takes a run over to go on with it, and raises its step: what its owner of before writes is refused, also where
    /// that is the same one. None where it is gone, ended, or somebody works on it. `step` is where it is believed to
    /// stand.
    fn claim_run<'a>(
        &'a self,
        id: &'a str,
        step: u64,
        owner: &'a str,
        pid: u32,
    ) -> StoreFuture<'a, Option<Run>>;

    /// Keeps a step of a run that its owner began or claimed; false, and nothing is kept, where the run has
    /// gone on elsewhere or is not running any more.
    fn keep_step<'a>(&'a self, step: &'a RunStep<'a>) -> StoreFuture<'a, bool>;

    /// Writes the heartbeat of the owner of a running run, without waiting for the disk.
    fn touch_run<'a>(&'a self, id: &'a str, owner: &'a str) -> StoreFuture<'a, ()>;

    /// The run of that id.
    fn run<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Run>>;

    /// Runs of a conversation or of all, those first that came last; only those that stand so, where it
    /// says so.
    fn runs<'a>(
        &'a self,
        conversation: Option<&'a str>,
        status: Option<RunStatus>,
        limit: u64,
    ) -> StoreFuture<'a, Vec<Run>>;

    /// The checkpoint of that id.
    fn checkpoint<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Checkpoint>>;

    /// The latest checkpoint of a run.
    fn latest_checkpoint<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Option<Checkpoint>>;

    /// Checkpoints of a conversation without their states, newest first.
    fn checkpoints<'a>(&'a self, conversation: &'a str, limit: u64) -> StoreFuture<'a, Vec<Checkpoint>>;

    /// A new conversation of the first `length` messages of another, with what is kept. Later neither
    /// knows of the other. False where there is one of that id already; an error where the other is not
    /// there or not that long.
    fn fork<'a>(&'a self, from: &'a str, length: u64, id: &'a str, kept: &'a Json) -> StoreFuture<'a, bool>;

    /// A conversation with its messages, runs and checkpoints as one JSON object; none where it is not
    /// there. Who works on its runs is not told: that is over where it is put in.
    fn export<'a>(&'a self, conversation: &'a str) -> StoreFuture<'a, Option<Json>>;

    /// Puts an exported conversation in, under its own id or another; false where there is one of that
    /// id already. All or nothing. Its runs and checkpoints keep their ids, unless one of those is in use
    /// here: then all of them get new ones.
    fn import<'a>(&'a self, exported: &'a Json, id: Option<&'a str>) -> StoreFuture<'a, bool>;

    /// Drops old checkpoints, of one conversation or of all, and says how many. Never a message, nor the
    /// last checkpoint of a run that can go on.
    fn prune<'a>(&'a self, conversation: Option<&'a str>, keep: Prune) -> StoreFuture<'a, u64>;

    /// Forgets a conversation and everything of it; false where it is not there.
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

    /// Returns `true` if its process had our number before us: in a container every host has the same one.
    fn is_of_a_namesake(&self) -> bool {
        self.pid == std::process::id() && self.seen_at < *OPENED
    }
}

/// The time when this process opened its first store. It cannot have worked on a run before.
static OPENED: LazyLock<i64> = LazyLock::new(now);

/// Notes that this process works with stores, and says since when.
pub(super) fn opened() -> i64 {
    *OPENED
}

/// Returns `true` if there is such a process on this machine, as far as one can know.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn lives(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return true };
    // A process of another user may not be asked, and is there.
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn lives(_: u32) -> bool {
    true
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Running, Self::Paused, Self::Done, Self::Failed, Self::Cancelled];

    /// Returns `true` if a run of this status can be resumed when no host works on it.
    pub const fn can_go_on(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Failed)
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the value of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}
