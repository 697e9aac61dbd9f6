//! Stored runs, which start with a request and resume with a decision on their pending action.

use super::memory::{self, LoadedConversation};
use super::pending::{Decision, conflict, decide, look_at_unfinished};
use super::run::{Drive, RunEnd, RunInput, Setup, notifier};
use super::saved::RunSnapshot;
use super::store_keeper::{AbandonedRunGuard, StoreKeeper, opened_host_calls};
use super::summary::NAME as SUMMARIZATION;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use valvehouse_core::chat::history::is_role;
use valvehouse_core::chat::{ChatRequest, message, response};
use valvehouse_core::context::{Context, Events, TurnFacts};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::kernel::{Progress, RunOptions, TurnAnswer, TurnEnd};
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;
use valvehouse_store::{First, NewRun, OWNER, Prune, Run, RunStart, Store};

/// The maximum number of attempts to read a conversation that changes at the same time.
const TRIES: usize = 8;
/// The interval at which the store is notified that a run is still in progress.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The number of messages after which old checkpoints of a conversation are deleted.
const DROPPED_EVERY: u64 = 40;
/// The maximum number of run updates buffered for a subscriber.
const AHEAD: usize = 256;

/// The stored runs of one process.
pub struct Runs {
    store: Arc<Store>,
    owner: String,
    /// The locks that serialize the turns of each conversation.
    turns: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// The remaining work of finished runs: script callbacks, and deletion of old checkpoints.
    left: Mutex<JoinSet<()>>,
    /// The channel that announces changed runs.
    moved: broadcast::Sender<Arc<str>>,
}

/// The outcome of a run that ended or paused.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The id of the run.
    pub run: String,
    /// The id of the conversation.
    pub conversation: String,
    /// The answer; for a paused run, its text describes the pending action.
    pub answer: TurnAnswer,
    /// The pending action, or null.
    pub pending_action: Json,
}

/// The inputs of a new run.
pub struct Begin {
    /// The id of the conversation.
    pub conversation: String,
    /// The request.
    pub request: ChatRequest,
    /// The facts about the request.
    pub facts: TurnFacts,
    /// The variables of the request.
    pub context: Context,
    /// The receiver of the events that plugins emit.
    pub events: Events,
    /// The receiver of the answer's chunks.
    pub stream: Option<Sender<StreamChunk>>,
    /// The relation of the request's messages to the conversation.
    pub given: HistoryMatch,
    /// The maximum number of messages passed to the model's filters.
    pub window: Option<usize>,
}

/// The relation of the messages of a request to its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryMatch {
    /// The client's view of the conversation, or only the new messages; repeated messages are not added again.
    Known,
    /// New messages only, for exactly this conversation.
    New,
}

impl Runs {
    /// Creates the runs of a process with this name in the store.
    pub fn new(store: Arc<Store>, owner: impl Into<String>) -> Self {
        Self {
            store,
            owner: owner.into(),
            turns: Mutex::default(),
            left: Mutex::default(),
            moved: broadcast::Sender::new(AHEAD),
        }
    }

    /// Waits for the remaining work of finished runs.
    pub async fn close(&self) {
        let left = std::mem::take(&mut *self.left.lock());
        left.join_all().await;
    }

    /// Subscribes to the ids of this process's runs as they change; each change is stored before it is
    /// announced. A slow subscriber misses some.
    pub fn moved(&self) -> broadcast::Receiver<Arc<str>> {
        self.moved.subscribe()
    }

    /// Returns the store of the runs.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Starts a run from a request and executes it until it ends or pauses. `begun` is called once the run is
    /// stored.
    ///
    /// # Errors
    /// Returns an error if the conversation belongs to another user or is busy, and the error of the turn or the
    /// store.
    pub async fn begin(
        &self,
        setup: &Setup,
        begin: Begin,
        begun: impl FnOnce(&Run),
    ) -> Result<RunOutcome, Error> {
        let turn = self.turn_of(&begin.conversation);
        let _turn = turn.lock().await;
        let (run, recalled, saved) = self.begin_run(setup, &begin).await?;
        begun(&run);
        let Begin { facts, events, stream, .. } = begin;
        let keeper = self.keeper(&run, recalled.kept);
        keeper.announce();
        let opening = RunInput::Begins(recalled.new.into());
        let turn = saved.turn(facts, &Json::Null, events);
        let notifier = notifier(setup, &run.id, &turn);
        self.drive(Drive { setup, saved, stored_messages: 0, turn, stream, opening, notifier }, &keeper).await
    }

    /// Runs a turn without storing it, and notifies the callbacks. Its run id exists only for them.
    ///
    /// # Errors
    /// Returns the error of the turn.
    pub async fn unstored(
        &self,
        setup: &Setup,
        request: ChatRequest,
        options: RunOptions<'_>,
    ) -> Result<TurnEnd, Error> {
        let run = uuid::Uuid::now_v7().to_string();
        let Some(notifier) = notifier(setup, &run, options.turn()) else {
            return setup.kernel.run(request, options).end().await;
        };
        let options = options.with_turn(|turn| notifier.watch(turn));
        notifier.started(&new_messages(&request).into());
        let reply = setup.kernel.run(request, options).end().await;
        match &reply {
            Ok(TurnEnd::Answer(answer)) => {
                let text = message::text_of(&response::message_of(&answer.reply));
                notifier.ended(&text, &answer.reply);
            }
            Ok(TurnEnd::Passthrough(_)) => {}
            Err(error) => notifier.failed(&error.to_string()),
        }
        // The answer does not wait for script callbacks.
        self.afterwards(async move { notifier.drain().await });
        reply
    }

    fn begin_run<'a>(
        &'a self,
        setup: &'a Setup,
        begin: &'a Begin,
    ) -> BoxFuture<'a, Result<(Run, LoadedConversation, RunSnapshot), Error>> {
        Box::pin(self.store_run(setup, begin))
    }

    async fn store_run(
        &self,
        setup: &Setup,
        begin: &Begin,
    ) -> Result<(Run, LoadedConversation, RunSnapshot), Error> {
        let id = &begin.conversation;
        let messages: Vec<Json> = begin.request.messages().items();
        let run = uuid::Uuid::now_v7().to_string();
        for _ in 0..TRIES {
            let messages = messages.iter().map(Json::deep_clone).collect();
            let recalled = match begin.given {
                HistoryMatch::Known => memory::recall(&self.store, id, &begin.facts, messages).await?,
                HistoryMatch::New => memory::goes_on(&self.store, id, messages).await?,
            };
            if let (0, Some(user)) = (recalled.length, &begin.facts.verified_user) {
                // The object has no other handles, so the write cannot fail.
                recalled.kept.edit(OWNER, user.as_str());
            }
            let saved = opening(begin, &recalled);
            let state = saved.to_json();
            let beginning = NewRun {
                run: &run,
                conversation: &recalled.id,
                agent: &setup.id,
                owner: &self.owner,
                pid: std::process::id(),
                expected: recalled.length,
                messages: &recalled.new,
                first: Some(First { name: "begin", state: &state, kept: &recalled.kept }),
            };
            let leaving = self.leaving(&run, &|| 1);
            let begun = self.store.begin_run(&beginning).await;
            leaving.done();
            match begun? {
                RunStart::Begun(run) => return Ok((run, recalled, saved)),
                RunStart::Busy(other) => {
                    return Err(conflict(format!(
                        "cannot continue the conversation `{id}`: run {} of process {} is using it; try again \
                         when it has ended",
                        other.id, other.pid
                    )));
                }
                RunStart::Moved(_) => {}
            }
        }
        Err(conflict(format!("cannot read the conversation `{id}`: it keeps changing; try again")))
    }

    /// Resumes a run that is paused, failed or was interrupted with its host. `hash` identifies the pending
    /// action that the decision belongs to, if the caller specifies it.
    ///
    /// # Errors
    /// Returns an error if the run cannot be resumed or the decision does not match its pending action, and the
    /// error of the turn or the store.
    pub async fn resume(
        &self,
        id: &str,
        decision: &Decision,
        hash: Option<&str>,
        setup: impl FnOnce(&RunSnapshot) -> Result<Setup, Error>,
        events: Events,
        stream: Option<Sender<StreamChunk>>,
    ) -> Result<RunOutcome, Error> {
        let run = self.run(id).await?;
        let turn = self.turn_of(&run.conversation);
        let _turn = turn.lock().await;
        let run = self.run(id).await?;
        if !run.status.can_go_on() {
            return Err(conflict(format!(
                "cannot resume run {id}: it is {}, so there is nothing to decide; send a new message to its \
                 conversation `{}`",
                run.status.name(),
                run.conversation
            )));
        }
        if let Some(hash) = hash.filter(|hash| run.pending.text("hash").as_deref() != Some(hash)) {
            return Err(conflict(format!(
                "run {id} does not wait for the action {hash}; read its current pending action"
            )));
        }
        let mut saved = self.saved(&run).await?;
        let stored_messages = saved.progress.transcript.items().len();
        let setup = setup(&saved)?;
        look_at_unfinished(&setup.kernel, id, &mut saved, decision)?;
        let pending = saved.pending.clone();
        decide(&mut saved, decision)?;
        let host_calls = opened_host_calls(&self.store, id, &saved)?;
        // The number of the step once the run is taken over.
        let step = || run.step + 1;
        let leaving = self.leaving(id, &step);
        let claimed = self.store.claim_run(id, run.step, &self.owner, std::process::id()).await;
        let Ok(Some(run)) = &claimed else {
            leaving.done();
            claimed?;
            return Err(conflict(format!("cannot resume run {id}: it is {}", run.status.name())));
        };
        let kept = self.conversation(&run.conversation).await?.kept;
        let keeper = self.keeper(run, kept);
        leaving.done();
        let opening = RunInput::GoesOn { decision: decision.to_json(), pending };
        let turn = saved.turn(setup.known(), &host_calls, events);
        let notifier = notifier(&setup, id, &turn);
        self.drive(Drive { setup: &setup, saved, stored_messages, turn, stream, opening, notifier }, &keeper)
            .await
    }

    // Boxed, as `begin_run` is, so that runs are compiled here once, and not in each package that starts them.
    fn drive<'a>(
        &'a self,
        drive: Drive<'a>,
        keeper: &'a StoreKeeper<'a>,
    ) -> BoxFuture<'a, Result<RunOutcome, Error>> {
        Box::pin(self.drive_to_end(drive, keeper))
    }

    async fn drive_to_end(&self, drive: Drive<'_>, keeper: &StoreKeeper<'_>) -> Result<RunOutcome, Error> {
        let before = match &drive.opening {
            RunInput::Begins(new) => drive.saved.length - new.items().len() as u64,
            RunInput::GoesOn { .. } => drive.saved.length,
        };
        let step = || keeper.step();
        let leaving = self.leaving(&keeper.run.id, &step);
        let notifier = drive.notifier.clone();
        let stopped = self.seen_at(&keeper.run.id, super::run::drive(drive, keeper)).await;
        leaving.done();
        if let Some(notifier) = notifier {
            // The answer does not wait for script callbacks.
            self.afterwards(async move { notifier.drain().await });
        }
        let RunEnd { answer, pending, saved } = stopped?;
        let (run, conversation) = (keeper.run.id.clone(), keeper.run.conversation.clone());
        if before / DROPPED_EVERY != saved.length / DROPPED_EVERY {
            self.afterwards(drop_old(self.store.clone(), conversation.clone()));
        }
        Ok(RunOutcome { run, conversation, answer, pending_action: pending })
    }

    fn keeper<'a>(&'a self, run: &Run, kept: Json) -> StoreKeeper<'a> {
        StoreKeeper::new(&self.store, &self.owner, &self.moved, run, kept)
    }

    /// Returns a guard that records that the run was abandoned at this step if it is dropped.
    fn leaving<'a>(&'a self, run: &'a str, step: &'a (dyn Fn() -> u64 + Sync)) -> AbandonedRunGuard<'a> {
        AbandonedRunGuard::new(&self.store, &self.owner, run, step)
    }

    /// Runs background work until the host closes.
    fn afterwards(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut left = self.left.lock();
        while left.try_join_next().is_some() {}
        left.spawn(work);
    }

    /// Runs work on a run while periodically recording in the store that the run is in progress.
    async fn seen_at<T>(&self, run: &str, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(HEARTBEAT, &mut work).await {
                Ok(ended) => return ended,
                Err(_) => {
                    if let Err(error) = self.store.touch_run(run, &self.owner).await {
                        tracing::warn!(run, "cannot record the heartbeat of a run: {error}");
                    }
                }
            }
        }
    }

    /// Returns the run of an id.
    ///
    /// # Errors
    /// Returns an error if it does not exist or the store fails.
    pub async fn run(&self, id: &str) -> Result<Run, Error> {
        let run = self.store.run(id).await?;
        run.ok_or_else(|| Error::Request {
            message: format!("unknown run `{id}`; `valvehouse runs` lists them"),
            param: None,
            code: Some("run_not_found"),
            kind: RequestErrorKind::NotFound,
        })
    }

    /// Returns the state of a run after its last step.
    ///
    /// # Errors
    /// Returns an error if the run has no stored step or the store fails.
    pub async fn saved(&self, run: &Run) -> Result<RunSnapshot, Error> {
        self.last_saved(run).await?.ok_or_else(|| {
            conflict(format!(
                "cannot resume run {}: it ended before its first step was stored; send the message again",
                run.id
            ))
        })
    }

    fn turn_of(&self, conversation: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        match turns.get(conversation).and_then(Weak::upgrade) {
            Some(turn) => turn,
            None => {
                let turn = Arc::default();
                turns.insert(conversation.to_owned(), Arc::downgrade(&turn));
                turn
            }
        }
    }
}

/// Returns the messages of a request that no answer follows.
fn new_messages(request: &ChatRequest) -> Vec<Json> {
    let messages = request.messages().items();
    let answered = messages.iter().rposition(|message| is_role(message, "assistant"));
    messages.into_iter().skip(answered.map_or(0, |at| at + 1)).collect()
}

/// Deletes old checkpoints, which would otherwise accumulate.
async fn drop_old(store: Arc<Store>, conversation: String) {
    if let Err(error) = store.prune(Some(&conversation), Prune::default()).await {
        tracing::warn!(chat_id = conversation, "cannot delete old checkpoints: {error}");
    }
}

/// Returns the initial state of a run.
fn opening(begin: &Begin, recalled: &LoadedConversation) -> RunSnapshot {
    let summary = recalled.states.get(SUMMARIZATION).unwrap_or_else(Json::object);
    let working = memory::through(begin.window, recalled.working.clone(), &summary);
    let request = begin.request.clone().with_messages(working.iter().map(Json::deep_clone).collect());
    let length = recalled.length + recalled.new.len() as u64;
    let variables = memory::variables(&recalled.kept, begin.context.variables());
    let facts = TurnFacts { chat_id: recalled.id.clone(), ..begin.facts.clone() };
    let progress = Progress::new(request);
    let saved = RunSnapshot::new(progress, &facts, variables, recalled.states.deep_clone(), length);
    RunSnapshot { metadata: begin.context.metadata().deep_clone(), ..saved }
}
