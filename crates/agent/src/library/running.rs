//! The runs of an agent, stored in memory or in its storage.

use super::agent::{Agent, AgentResponse, no_storage};
use super::stream::AgentStream;
use crate::journal::{JournalEntry, Keeper};
use crate::memory;
use crate::pending::{Decision, cancelled, conflict, decide, look_at_unfinished};
use crate::run::{self, Drive, RunEnd, RunInput, Setup};
use crate::runs::{Begin, HistoryMatch, RunOutcome};
use crate::saved::RunSnapshot;
use crate::summary::NAME as SUMMARIZATION;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, Sender};
use valvehouse_core::chat::{ChatRequest, IntoMessages};
use valvehouse_core::context::{Context, Events, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::Progress;
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;
use valvehouse_store::RunStatus;

/// The number of chunks that are buffered for a slow reader before the model call waits.
const AHEAD: usize = 32;

impl Agent {
    /// Sends a user message, or other messages, and runs until there is an answer or a person is needed.
    ///
    /// # Errors
    /// Returns the error of the turn or the store.
    pub async fn run(&mut self, messages: impl IntoMessages) -> Result<AgentResponse, Error> {
        self.run_messages(messages.into_messages()?, None).await
    }

    /// Sends messages as [`Agent::run`] does, and returns the chunks of the answer as a stream. The run proceeds
    /// while the stream is polled.
    ///
    /// ```no_run
    /// # async fn example(mut agent: valvehouse_agent::Agent) -> Result<(), valvehouse_core::Error> {
    /// let mut stream = agent.stream("hello");
    /// while let Some(chunk) = stream.next().await {
    ///     print!("{}", chunk?.text());
    /// }
    /// let response = stream.response();
    /// # Ok(()) }
    /// ```
    pub fn stream(&mut self, messages: impl IntoMessages) -> AgentStream<'_> {
        let messages = messages.into_messages();
        let (sender, chunks) = mpsc::channel(AHEAD);
        let work = async move { self.run_messages(messages?, Some(sender)).await };
        AgentStream { work: Some(Box::pin(work)), chunks, ended: None, response: None }
    }

    /// Sends messages of any role as [`Agent::run`] does, and streams the chunks of the answer if `chunks` is
    /// set. An open pending action is canceled.
    ///
    /// # Errors
    /// Returns the error of the turn or the store.
    pub async fn run_messages(
        &mut self,
        messages: Vec<Json>,
        chunks: Option<Sender<StreamChunk>>,
    ) -> Result<AgentResponse, Error> {
        let setup = self.setup();
        let facts = TurnFacts {
            model: setup.model.deep_clone(),
            models: Json::array(),
            chat_id: self.conversation.clone(),
            message_id: uuid::Uuid::new_v4().to_string(),
            ..TurnFacts::default()
        };
        if self.runs.is_some() {
            return self.run_stored(&setup, messages, facts, chunks).await;
        }
        let mut new = cancelled(&self.state.messages);
        new.extend(messages.iter().map(Json::deep_clone));
        self.state.messages.extend(new.iter().cloned());
        self.latest = None;
        self.kept = memory::remembering(&self.kept, &new);
        let summary = self.kept.get(SUMMARIZATION).unwrap_or_else(Json::object).deep_clone();
        summary.edit("offset", 0i64);
        let working = memory::through(self.window(), self.state.messages.clone(), &summary);
        let states = Json::from([(SUMMARIZATION, summary)]);
        let progress = Progress::new(ChatRequest::new(self.body(working))?);
        let length = self.state.messages.len() as u64;
        let saved = RunSnapshot::new(progress, &facts, self.variables.deep_clone(), states, length);
        let run = uuid::Uuid::now_v7().to_string();
        self.drive(&setup, run, saved, 0, RunInput::Begins(new.into()), chunks).await
    }

    /// Returns the maximum number of messages with which a run starts, if there is a window.
    fn window(&self) -> Option<usize> {
        self.state.buffer_config.as_ref().map(|config| config.window_size)
    }

    /// Stores an imported conversation before it continues in the storage.
    async fn bring_along(&mut self) -> Result<(), Error> {
        if self.runs.is_none() || self.state.messages.is_empty() {
            return Ok(());
        }
        let store = self.storage()?.clone();
        if store.conversation(&self.conversation).await?.is_some() {
            return Ok(());
        }
        let remembered = memory::remembering(&Json::object(), &self.state.messages);
        self.kept = self
            .latest
            .as_ref()
            .map_or_else(|| remembered.deep_clone(), |saved| memory::leaving(&remembered, saved));
        let run = self.save_to(&store).await?;
        if self.unfinished().is_some() {
            self.state.run_id = Some(run);
        }
        Ok(())
    }

    async fn run_stored(
        &mut self,
        setup: &Setup,
        messages: Vec<Json>,
        facts: TurnFacts,
        stream: Option<Sender<StreamChunk>>,
    ) -> Result<AgentResponse, Error> {
        self.bring_along().await?;
        let Some(runs) = &self.runs else { return Err(no_storage()) };
        let begin = Begin {
            conversation: self.conversation.clone(),
            request: ChatRequest::new(self.body(messages))?,
            facts,
            context: Context::new(self.variables.deep_clone()),
            events: Events::default(),
            stream,
            given: HistoryMatch::New,
            window: self.window(),
        };
        let mut begun = None;
        let ended = runs.begin(setup, begin, |run| begun = Some(run.id.clone())).await;
        self.state.run_id = begun.or(self.state.run_id.take());
        self.take_up(ended).await
    }

    /// Resumes the latest run, which is paused, failed, or was interrupted with its process. If this agent has not run
    /// yet, the latest checkpoint of its conversation is restored first.
    ///
    /// # Errors
    /// Returns an error if the run cannot be resumed or the decision does not match its pending action, and the
    /// error of the turn or the store.
    pub async fn resume(&mut self, decision: Decision) -> Result<AgentResponse, Error> {
        self.resume_stream(decision, None).await
    }

    /// Resumes the latest run as [`Agent::resume`] does, and streams the chunks of the answer if `chunks` is
    /// set.
    ///
    /// # Errors
    /// Returns the errors of [`Agent::resume`].
    pub async fn resume_stream(
        &mut self,
        decision: Decision,
        chunks: Option<Sender<StreamChunk>>,
    ) -> Result<AgentResponse, Error> {
        if self.state.run_id.is_none() && self.latest.is_none() && self.state.storage.is_some() {
            self.load_latest().await?;
        }
        let setup = self.setup();
        self.bring_along().await?;
        let run =
            self.state.run_id.clone().ok_or_else(|| conflict("cannot resume: this agent has no run"))?;
        if let Some(runs) = &self.runs {
            let made = |_: &RunSnapshot| Ok(setup);
            let ended = runs.resume(&run, &decision, None, made, Events::default(), chunks).await;
            return self.take_up(ended).await;
        }
        let saved = self.unfinished().cloned();
        let mut saved =
            saved.ok_or_else(|| conflict("cannot resume: the latest run has ended; send a new message"))?;
        let stored_messages = saved.progress.transcript.items().len();
        look_at_unfinished(&setup.kernel, &run, &mut saved, &decision)?;
        let pending = saved.pending.clone();
        decide(&mut saved, &decision)?;
        let opening = RunInput::GoesOn { decision: decision.to_json(), pending };
        self.drive(&setup, run, saved, stored_messages, opening, chunks).await
    }

    async fn drive(
        &mut self,
        setup: &Setup,
        run: String,
        saved: RunSnapshot,
        stored_messages: usize,
        opening: RunInput,
        stream: Option<Sender<StreamChunk>>,
    ) -> Result<AgentResponse, Error> {
        let turn = saved.turn(setup.known(), &saved.host_calls, Events::default());
        let notifier = run::notifier(setup, &run, &turn);
        // A run can be resumed even before its first step.
        let kept = Mutex::new((Vec::new(), Some(saved.clone())));
        let keeper = InMemory { run: run.clone(), kept };
        (self.state.run_id, self.state.pending_action) = (Some(run), None);
        let drive =
            Drive { setup, saved, stored_messages, turn, stream, opening, notifier: notifier.clone() };
        let stopped = run::drive(drive, &keeper).await;
        if let Some(notifier) = notifier {
            notifier.drain().await;
        }
        let (messages, saved) = keeper.kept.into_inner();
        self.kept = memory::remembering(&self.kept, &messages);
        self.state.messages.extend(messages);
        if let Some(saved) = &saved {
            self.note(saved);
        }
        let RunEnd { answer, pending, saved: stands } = stopped?;
        self.note(&stands);
        self.state.pending_action = Some(pending.clone()).filter(|pending| !pending.is_null());
        Ok(AgentResponse { response: answer.response, pending_action: pending })
    }

    /// Adopts the state of a stored run.
    async fn take_up(&mut self, ended: Result<RunOutcome, Error>) -> Result<AgentResponse, Error> {
        if let Ok(ended) = &ended {
            self.conversation.clone_from(&ended.conversation);
        }
        self.catch_up().await?;
        ended.map(|ended| AgentResponse {
            response: ended.answer.response,
            pending_action: ended.pending_action,
        })
    }

    /// Reads the changes of the conversation in the storage.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let store = self.storage()?.clone();
        let known = self.state.messages.len() as u64;
        let news = store.messages(&self.conversation, known, u64::MAX).await?;
        self.state.messages.extend(news);
        let Some(id) = self.state.run_id.clone() else { return Ok(()) };
        let run = store.run(&id).await?;
        let pending = run.filter(|run| run.status == RunStatus::Paused).map(|run| run.pending);
        self.state.pending_action = pending.filter(|pending| !pending.is_null());
        if let Some(checkpoint) = store.latest_checkpoint(&id).await? {
            let saved = RunSnapshot::from_json(&checkpoint.state)?;
            self.note(&saved);
        }
        Ok(())
    }
}

/// The in-memory journal of a run.
struct InMemory {
    run: String,
    kept: Mutex<(Vec<Json>, Option<RunSnapshot>)>,
}

impl Keeper for InMemory {
    fn keep<'a>(&'a self, kept: JournalEntry<'a>) -> BoxFuture<'a, Result<(), Error>> {
        let mut own = self.kept.lock();
        own.0.extend(kept.messages.iter().map(Json::deep_clone));
        if let Some(saved) = kept.saved {
            own.1 = Some(saved.clone());
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn run(&self) -> &str {
        &self.run
    }
}
