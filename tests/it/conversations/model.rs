//! A simple store as the reference: lists in memory and the effect of each action on them.

use super::{Action, CONVERSATIONS, process};
use std::collections::BTreeMap;
use valvehouse::json::Json;
use valvehouse::store::{NewRun, Prune, RunStart, RunStatus, RunStep, Store};

/// A number that no system uses as a process id.
pub(crate) const NO_PROCESS: u32 = i32::MAX.cast_unsigned();

#[derive(Default)]
pub(crate) struct Model {
    conversations: BTreeMap<String, Conversation>,
    /// The number of all messages so far, which makes each message unique.
    count: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Conversation {
    agent: String,
    messages: Vec<Json>,
    kept: Json,
    forked_from: Option<(String, u64)>,
    runs: Vec<Run>,
}

#[derive(Debug, Clone, PartialEq)]
struct Run {
    id: String,
    status: RunStatus,
    step: u64,
    owner: String,
    pid: u32,
    pending: Json,
    checkpoints: Vec<Checkpoint>,
}

#[derive(Debug, Clone, PartialEq)]
struct Checkpoint {
    step: u64,
    length: u64,
    state: Json,
}

impl Run {
    fn is_alive(&self) -> bool {
        // No owner times out in these tests, and an imported run has no owner.
        self.status == RunStatus::Running && self.pid == std::process::id()
    }
}

impl Model {
    /// Performs the action on both stores and compares the results.
    pub(crate) async fn does_as(&mut self, store: &Store, action: &Action) {
        match *action {
            Action::Begin { conversation, owner, dead, ahead, length } => {
                let new_messages = self.new_messages(length);
                let expected = self.conversations.get(conversation).map_or(0, Conversation::length) + ahead;
                let (run, agent) = (format!("run {}", self.next()), format!("agent {owner}"));
                let (messages, pid) = (new_messages.as_slice(), process(dead));
                let beginning = NewRun {
                    run: &run,
                    conversation,
                    agent: &agent,
                    owner,
                    pid,
                    expected,
                    messages,
                    first: None,
                };
                let begun = store.begin_run(&beginning).await.unwrap();
                self.begin(&beginning, &begun);
            }
            Action::Keep { run, owner, ahead, length, checkpoint, status } => {
                let Some((conversation, run)) = self.run(run) else { return };
                let found = self.conversations[&conversation].runs[run].clone();
                let (new_messages, state) =
                    (self.new_messages(length), Json::from([("n", self.next().into())]));
                let step = RunStep {
                    run: &found.id,
                    owner,
                    expected: found.step + ahead,
                    messages: &new_messages,
                    checkpoint: checkpoint.then_some(("model", &state)),
                    status,
                    pending: &state,
                    error: "",
                    kept: checkpoint.then_some(&state),
                };
                let kept = store.keep_step(&step).await.unwrap();
                let running = found.status == RunStatus::Running;
                assert_eq!(kept, running && found.owner == owner && ahead == 0);
                if kept {
                    self.keep(&conversation, run, &step);
                }
            }
            Action::Claim { run, owner, dead, ahead } => {
                let Some((conversation, run)) = self.run(run) else { return };
                let run = &mut self.conversations.get_mut(&conversation).unwrap().runs[run];
                let claimed = store.claim_run(&run.id, run.step + ahead, owner, process(dead)).await.unwrap();
                let free = run.status.can_go_on() && !run.is_alive() && ahead == 0;
                assert_eq!(claimed.is_some(), free, "{run:?}");
                if free {
                    (run.status, run.owner, run.pid) = (RunStatus::Running, owner.to_owned(), process(dead));
                    run.step += 1;
                }
            }
            Action::Fork { from, to, less } => {
                let Some(original) = self.conversations.get(from).cloned() else {
                    assert!(
                        self.conversations.contains_key(to)
                            || store.fork(from, 0, to, &Json::object()).await.is_err()
                    );
                    return;
                };
                let length = original.length().saturating_sub(less);
                let kept = Json::from([("n", self.next().into())]);
                let forked = store.fork(from, length, to, &kept).await.unwrap();
                assert_eq!(forked, !self.conversations.contains_key(to));
                if forked {
                    let messages = original.messages[..length as usize].to_vec();
                    let forked_from = Some((from.to_owned(), length));
                    let fork = Conversation { messages, kept, forked_from, runs: Vec::new(), ..original };
                    self.conversations.insert(to.to_owned(), fork);
                }
            }
            Action::Carry { from, to } => self.carry(store, from, to).await,
            Action::Prune { conversation, keep } => {
                let dropped = store.prune(conversation, keep).await.unwrap();
                let pruned = self.conversations.iter_mut();
                let pruned = pruned.filter(|(id, _)| conversation.is_none_or(|only| only == id.as_str()));
                assert_eq!(dropped, pruned.map(|(_, conversation)| conversation.prune(keep)).sum::<u64>());
            }
            Action::Forget { conversation } => {
                let forgotten = store.forget_conversation(conversation).await.unwrap();
                assert_eq!(forgotten, self.conversations.remove(conversation).is_some());
            }
            Action::Restart => {}
        }
    }

    fn begin(&mut self, beginning: &NewRun<'_>, begun: &RunStart) {
        let found = self.conversations.get(beginning.conversation);
        let alive = found.and_then(|found| found.runs.iter().find(|run| run.is_alive()));
        let length = found.map_or(0, Conversation::length);
        match begun {
            RunStart::Busy(run) => assert_eq!(Some(&run.id), alive.map(|run| &run.id)),
            RunStart::Moved(to) => assert!(alive.is_none() && *to == length && length != beginning.expected),
            RunStart::Begun(_) => {
                assert!(alive.is_none() && length == beginning.expected);
                let conversation = self.conversations.entry(beginning.conversation.to_owned()).or_default();
                conversation.begin(beginning);
            }
        }
    }

    fn keep(&mut self, conversation: &str, run: usize, step: &RunStep<'_>) {
        let conversation = self.conversations.get_mut(conversation).unwrap();
        conversation.messages.extend_from_slice(step.messages);
        let length = conversation.length();
        if let Some(kept) = step.kept {
            conversation.kept = kept.deep_clone();
        }
        let run = &mut conversation.runs[run];
        (run.step, run.status, run.pending) = (run.step + 1, step.status, step.pending.deep_clone());
        if let Some((_, state)) = step.checkpoint {
            run.checkpoints.push(Checkpoint { step: run.step, length, state: state.deep_clone() });
        }
    }

    /// Exports a conversation and imports it under another id.
    async fn carry(&mut self, store: &Store, from: &str, to: &str) {
        let exported = store.export(from).await.unwrap();
        assert_eq!(exported.is_some(), self.conversations.contains_key(from));
        let Some(exported) = exported else { return };
        let carried = store.import(&exported, Some(to)).await.unwrap();
        assert_eq!(carried, !self.conversations.contains_key(to));
        if !carried {
            return;
        }
        let mut copy = self.conversations[from].clone();
        let runs = store.runs(Some(to), None, u64::MAX).await.unwrap();
        assert_eq!(runs.len(), copy.runs.len());
        for (run, found) in copy.runs.iter_mut().rev().zip(runs) {
            assert_ne!(run.id, found.id, "each run has an id of its own");
            (run.id, run.owner, run.pid) = (found.id, String::new(), 0);
        }
        self.conversations.insert(to.to_owned(), copy);
    }

    /// Compares the contents of both stores.
    pub(crate) async fn is_what_is_in(&self, store: &Store) {
        let all = store.conversations(None, u64::MAX).await.unwrap();
        assert_eq!(all.len(), self.conversations.len());
        for id in CONVERSATIONS {
            assert_eq!(Conversation::stored(store, id).await.as_ref(), self.conversations.get(id), "{id:?}");
        }
    }

    /// Returns a run that can continue, counted from the last conversation; without one, any run.
    fn run(&self, skip: usize) -> Option<(String, usize)> {
        let runs = self.conversations.iter().flat_map(|(id, conversation)| {
            conversation.runs.iter().enumerate().map(move |(place, run)| (id.clone(), place, run))
        });
        let mut runs: Vec<_> = runs.collect();
        runs.sort_by_key(|(_, place, run)| (!run.status.can_go_on(), usize::MAX - place));
        let chosen = runs.get(skip % runs.len().max(1))?;
        Some((chosen.0.clone(), chosen.1))
    }

    fn new_messages(&mut self, count: u64) -> Vec<Json> {
        (0..count).map(|_| Json::from([("role", "user".into()), ("content", self.next().into())])).collect()
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

impl Default for Conversation {
    fn default() -> Self {
        let (agent, messages, runs) = Default::default();
        Self { agent, messages, kept: Json::object(), forked_from: None, runs }
    }
}

impl Conversation {
    fn length(&self) -> u64 {
        self.messages.len() as u64
    }

    fn begin(&mut self, beginning: &NewRun<'_>) {
        for run in self.runs.iter_mut().filter(|run| run.status.can_go_on()) {
            (run.status, run.pending) = (RunStatus::Cancelled, Json::Null);
        }
        beginning.agent.clone_into(&mut self.agent);
        self.messages.extend_from_slice(beginning.messages);
        self.runs.push(Run {
            id: beginning.run.to_owned(),
            status: RunStatus::Running,
            step: 0,
            owner: beginning.owner.to_owned(),
            pid: beginning.pid,
            pending: Json::Null,
            checkpoints: Vec::new(),
        });
    }

    fn prune(&mut self, keep: Prune) -> u64 {
        let mut dropped = 0;
        for (age, run) in self.runs.iter_mut().rev().enumerate() {
            if (age as u64) < keep.whole_runs {
                continue;
            }
            let stays = (age as u64) < keep.runs || run.status.can_go_on();
            let first = run.checkpoints.len().saturating_sub(usize::from(stays));
            dropped += run.checkpoints.drain(..first).len() as u64;
        }
        dropped
    }

    /// Reads a conversation from the store.
    async fn stored(store: &Store, id: &str) -> Option<Self> {
        let found = store.conversation(id).await.unwrap()?;
        let messages = store.messages(id, 0, u64::MAX).await.unwrap();
        assert_eq!(found.length, messages.len() as u64);
        let mut runs = Vec::new();
        let listed = store.checkpoints(id, u64::MAX).await.unwrap();
        for run in store.runs(Some(id), None, u64::MAX).await.unwrap().into_iter().rev() {
            let mut checkpoints = Vec::new();
            for of_run in listed.iter().rev().filter(|checkpoint| checkpoint.run == run.id) {
                let whole = store.checkpoint(&of_run.id).await.unwrap().unwrap();
                checkpoints.push(Checkpoint { step: whole.step, length: whole.length, state: whole.state });
            }
            let latest = store.latest_checkpoint(&run.id).await.unwrap();
            assert_eq!(latest.map(|latest| latest.step), checkpoints.last().map(|last| last.step));
            let valvehouse::store::Run { id, status, step, owner, pid, pending, .. } = run;
            runs.push(Run { id, status, step, owner, pid, pending, checkpoints });
        }
        Some(Self { agent: found.agent, messages, kept: found.kept, forked_from: found.forked_from, runs })
    }
}
