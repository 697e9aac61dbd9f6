//! Turns and agent runs with the models of a host.

use super::lifecycle::App;
use crate::snapshot::{Ready, Snapshot};
use std::sync::Arc;
use valvehouse_agent::callbacks::Callbacks;
use valvehouse_agent::{Begin, Decision, HistoryMatch, RunSnapshot, Setup};
use valvehouse_core::chat::{ChatRequest, IntoMessages};
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{ChatChunks, RunOptions, TurnAnswer, TurnEnd, TurnStream};
use valvehouse_json::Json;
use valvehouse_store::Run;

impl App {
    /// Sends messages to a model and returns the complete answer.
    ///
    /// # Errors
    /// Returns a request error for an unknown model or invalid messages, and the error of the turn.
    pub async fn chat(
        self: &Arc<Self>,
        model: &str,
        messages: impl IntoMessages,
    ) -> Result<TurnAnswer, Error> {
        self.begin(model, messages.into_messages()?, false)?.answer().await
    }

    /// Sends messages to a model and returns the chunks of the answer as a stream.
    ///
    /// # Errors
    /// Returns a request error for an unknown model or invalid messages.
    pub fn stream(
        self: &Arc<Self>,
        model: &str,
        messages: impl IntoMessages,
    ) -> Result<ChatChunks<'static>, Error> {
        Ok(self.begin(model, messages.into_messages()?, true)?.chunks())
    }

    fn begin(
        self: &Arc<Self>,
        model: &str,
        messages: Vec<Json>,
        is_streamed: bool,
    ) -> Result<TurnStream<'static>, Error> {
        let ready = self.host.snapshot().ready(model, &[])?;
        let body = Json::from([("model", model.into()), ("messages", messages.into())]);
        let facts =
            TurnFacts { model: ready.facts.clone(), models: ready.models.clone(), ..TurnFacts::default() };
        let turn = Turn::new(facts, Context::default(), Events::default());
        let turn = match &self.native.observer {
            Some(observer) => turn.observed_by(observer.clone()),
            None => turn,
        };
        let options = RunOptions::new(turn).streamed(is_streamed);
        Ok(self.run(&ready, ChatRequest::new(body)?, options, |_| {}))
    }

    /// Runs a turn of a model. If the model has a memory and the turn a chat id, the turn is stored as a run,
    /// which is passed to `begun`.
    pub fn run<'a>(
        self: &Arc<Self>,
        ready: &Ready,
        request: ChatRequest,
        options: RunOptions<'a>,
        begun: impl FnOnce(&Run) + Send + 'a,
    ) -> TurnStream<'a> {
        let turn = options.turn();
        let facts = turn.facts();
        if let Some(trace) = turn.trace() {
            trace.remember(|| begun_with(turn));
        }
        // Open WebUI requests titles and tags about a chat; these are not messages of the chat.
        let is_task = turn.metadata().get("task").is_some_and(|task| !task.is_empty());
        if !ready.memory || facts.chat_id.is_empty() || is_task {
            return self.unremembered(ready, request, options);
        }
        let (app, setup) = (self.clone(), setup(ready));
        options.stream(|mut options| async move {
            let stream = options.take_sender();
            let turn = options.turn();
            let begin = Begin {
                conversation: turn.facts().chat_id.clone(),
                request,
                facts: turn.facts().clone(),
                context: turn.context().clone(),
                events: turn.events().clone(),
                stream,
                given: HistoryMatch::Known,
                window: None,
            };
            Ok(TurnEnd::Answer(app.runs.begin(&setup, begin, begun).await?.answer))
        })
    }

    /// Runs a turn that is not stored. Listeners of agents are notified.
    fn unremembered<'a>(
        self: &Arc<Self>,
        ready: &Ready,
        request: ChatRequest,
        options: RunOptions<'a>,
    ) -> TurnStream<'a> {
        if ready.callbacks.is_empty() {
            return ready.kernel.run(request, options);
        }
        let (app, setup) = (self.clone(), setup(ready));
        options.stream(|options| async move { app.runs.unstored(&setup, request, options).await })
    }

    /// Resumes a run that waits, failed, or whose host died. Only the events and the exchange of the given
    /// turn are used; the run has its other data stored.
    pub fn resume<'a>(
        self: &Arc<Self>,
        run: String,
        decision: Decision,
        hash: Option<String>,
        options: RunOptions<'a>,
    ) -> TurnStream<'a> {
        let app = self.clone();
        options.stream(|mut options| async move {
            let stream = options.take_sender();
            let turn = options.turn();
            let (events, exchange) = (turn.events().clone(), turn.facts().exchange.clone());
            let snapshot = app.host.snapshot();
            let setup =
                |saved: &RunSnapshot| setup_of(&snapshot, saved).map(|setup| Setup { exchange, ..setup });
            let ended = app.runs.resume(&run, &decision, hash.as_deref(), setup, events, stream).await?;
            Ok(TurnEnd::Answer(ended.answer))
        })
    }
}

/// Returns the input of a turn as JSON: its facts, its model, and its shared data.
fn begun_with(turn: &Turn) -> Json {
    let facts = turn.facts().to_json();
    let parts = [
        ("model", turn.facts().model.clone()),
        ("metadata", turn.metadata().deep_clone()),
        ("variables", turn.context().variables().deep_clone()),
    ];
    for (name, part) in parts {
        // The object is new and not read-only.
        facts.edit(name, part);
    }
    facts
}

/// Returns the input with which a stored run would resume now.
///
/// # Errors
/// Returns a request error if the model of the run no longer exists.
pub fn setup_of(snapshot: &Snapshot, saved: &RunSnapshot) -> Result<Setup, Error> {
    Ok(setup(&snapshot.ready(&saved.model(), &saved.filter_ids())?))
}

/// Returns a model as its runs need it.
fn setup(ready: &Ready) -> Setup {
    Setup {
        id: ready.facts.text_or_empty("id").into(),
        kernel: ready.kernel.clone(),
        model: ready.facts.clone(),
        models: ready.models.clone(),
        name: ready.facts.text_or_empty("name").into(),
        callbacks: Callbacks::new(),
        listeners: ready.callbacks.clone(),
        exchange: None,
    }
}
