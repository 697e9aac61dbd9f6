//! A turn: the facts about its request, its variables and the scratch maps of its scripts.

use super::afterwards::Afterwards;
use super::audited::{AuditedSide, AuditedSides};
use super::durable::{Durable, PendingFlush};
use super::event::{Events, NobodyAnswers, UnsentEvent};
use super::exchange::Exchange;
use super::nested_call::Load;
use super::nested_call::{NestedCall, Runner, TooManyCalls, Within, recorded_by};
use super::observer::{Notice, NoticeKind, NoticeKinds, Observer, Observers};
use super::pause::Pauses;
use super::variables::Context;
use crate::error::{Error, PluginError};
use crate::trace::Trace;
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{self, Poll};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use valvehouse_json::{Json, Object};

/// The facts about a request that are known before the turn starts.
#[derive(Debug, Clone, Default)]
pub struct TurnFacts {
    /// The user: `id name email role` and other fields from the client or the access configuration.
    pub user: Json,
    /// The id of the user if the host has verified it: by a key, a token, trusted headers or the command line.
    /// Only then scripts reach records of the user. The id in `user` may come from the request.
    pub verified_user: Option<String>,
    /// A digest of the key of the request.
    pub key_digest: Option<u64>,
    /// The model: `id name provider` and its configured fields; null for an unknown model.
    pub model: Json,
    /// The available models, a list of objects like `model`.
    pub models: Json,
    /// The HTTP request: `method path headers client`, without credentials.
    pub request: Json,
    /// The id of the conversation; "" if there is none.
    pub chat_id: String,
    /// The id of the message that is being answered.
    pub message_id: String,
    /// The features that the client requested.
    pub features: Json,
    /// The uploaded files.
    pub files: Json,
    /// The ids of the toggle filters that the request enables.
    pub filter_ids: Vec<String>,
    /// The variables set by the configuration, which requests cannot change; null if there are none.
    pub variables: Json,
    /// The variables sent by the client, an object; null if there are none.
    pub client: Json,
    /// The plugins whose nested model calls led to this turn.
    pub callers: Vec<String>,
    /// The trace that records the steps of the turn, if any.
    pub trace: Option<Arc<Trace>>,
    /// The scratch maps that a split turn shares with its other parts.
    pub states: Option<States>,
    /// The headers, the credential and the retries of the request, if it came through an endpoint.
    pub exchange: Option<Arc<Exchange>>,
    /// The load of the enclosing request, if the turn is a script's model call.
    pub load: Option<Arc<Load>>,
    /// The enclosing tool call, if the turn is a script's model call.
    pub nesting: Option<NestedCall>,
    /// The queue of tasks for the time after the answer, if the endpoint supports it.
    pub afterwards: Option<Afterwards>,
}

/// The scratch maps of plugins by id. Clones share the maps.
#[derive(Debug, Clone, Default)]
pub struct States(Arc<Mutex<HashMap<String, Json>>>);

impl States {
    /// Returns the map of a plugin, creating it if it is missing.
    pub fn of(&self, plugin: &str) -> Json {
        let mut states = self.0.lock();
        match states.get(plugin) {
            Some(state) => state.clone(),
            None => states.entry(plugin.to_owned()).or_insert_with(Json::object).clone(),
        }
    }

    /// Removes the map of a plugin.
    pub fn remove(&self, plugin: &str) {
        self.0.lock().remove(plugin);
    }

    /// Returns all maps with their plugins.
    pub fn all(&self) -> Vec<(String, Json)> {
        self.0.lock().iter().map(|(plugin, state)| (plugin.clone(), state.clone())).collect()
    }
}

/// Returns a digest of a text for comparisons within the process.
pub fn digest(text: &str) -> u64 {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    STATE.get_or_init(RandomState::new).hash_one(text)
}

/// The facts that are serialized; those about models are read again.
const WRITTEN: [&str; 10] = [
    "user",
    "verified_user",
    "request",
    "chat_id",
    "message_id",
    "features",
    "files",
    "filter_ids",
    "configured_variables",
    "client_variables",
];

impl TurnFacts {
    /// Returns a digest of the client: of the key, and of the verified user for whom it was sent. `None` if both are
    /// unknown.
    pub fn client_digest(&self) -> Option<u64> {
        match (self.verified_user.as_deref().map(digest), self.key_digest) {
            (Some(user), Some(key)) => Some(user ^ key),
            (user, key) => user.or(key),
        }
    }

    /// Converts the facts to an object, without those about models.
    pub fn to_json(&self) -> Json {
        let ids: Vec<Json> = self.filter_ids.iter().map(|id| id.as_str().into()).collect();
        let values = [
            self.user.deep_clone(),
            self.verified_user.clone().into(),
            self.request.deep_clone(),
            self.chat_id.as_str().into(),
            self.message_id.as_str().into(),
            self.features.deep_clone(),
            self.files.deep_clone(),
            ids.into(),
            self.variables.deep_clone(),
            self.client.deep_clone(),
        ];
        WRITTEN.into_iter().map(|name| name.into()).zip(values).collect::<Object>().into()
    }

    /// Reads an object created by [`TurnFacts::to_json`].
    pub fn from_json(json: &Json) -> Self {
        let part = |name: &str| json.field(name).deep_clone();
        let text = |name: &str| json.string(name);
        Self {
            user: part("user"),
            verified_user: json.text("verified_user").map(String::from),
            request: part("request").freeze(),
            chat_id: text("chat_id"),
            message_id: text("message_id"),
            features: part("features"),
            files: part("files"),
            variables: part("configured_variables"),
            client: part("client_variables"),
            filter_ids: part("filter_ids")
                .items()
                .iter()
                .filter_map(Json::as_str)
                .map(str::to_owned)
                .collect(),
            ..Self::default()
        }
    }
}

/// Returns the recorded facts and context of a trace, to run its turn again: without the models, and with its
/// variables and metadata.
pub fn begun_again(trace: &Trace) -> (TurnFacts, Context) {
    let begun = Json::from(trace.facts().cloned());
    let part = |name: &str| begun.field(name).deep_clone();
    let context = Context::new(part("variables"));
    if let (Json::Object(own), Json::Object(kept)) = (context.metadata(), part("metadata")) {
        // The container is new and the values belong to no other, so the write cannot fail.
        let _ = own.replace(kept.entries());
    }
    (TurnFacts { model: part("model").freeze(), ..TurnFacts::from_json(&begun) }, context)
}

/// A turn in progress. Clones share the turn and cost one reference count.
#[derive(Clone)]
pub struct Turn(Arc<InContext>);

struct InContext {
    shared: Arc<Inner>,
    context: Context,
    /// The script's tool call that this turn handle belongs to.
    within: Option<Arc<Within>>,
    /// The side that a filter in audit mode sees; `None` for the turn itself.
    audited: Option<Arc<AuditedSide>>,
}

struct Inner {
    facts: TurnFacts,
    states: States,
    /// The exchange of a turn that did not come through an endpoint.
    exchange: Exchange,
    /// The load of a request that is not a script's model call.
    load: OnceLock<Arc<Load>>,
    locals: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    events: Events,
    observers: Observers,
    pauses: OnceLock<Pauses>,
    started: Instant,
    /// The bytes stored by calls since the total size was last computed.
    kept: AtomicU64,
    /// Set if the current event of the stream hooks holds the text of many events.
    has_long_event: AtomicBool,
    /// The approximate size in bytes of the largest value passed to or returned by the hooks.
    size: AtomicUsize,
    pending_flush: PendingFlush,
    /// The runner of the turn.
    runner: Mutex<Option<Runner>>,
    /// The task queue of a turn whose endpoint does not provide one.
    afterwards: OnceLock<Afterwards>,
    over: watch::Sender<bool>,
}

impl Default for Turn {
    fn default() -> Self {
        Self::new(TurnFacts::default(), Context::default(), Events::default())
    }
}

impl Turn {
    /// Creates the subject of a native hook: named parts, plus the turn's context and metadata.
    pub fn ctx_of<const N: usize>(&self, parts: [(&str, Json); N]) -> Json {
        let own = parts.into_iter().map(|(name, value)| (name.into(), value));
        let shared =
            [("context".into(), self.context().as_json()), ("metadata".into(), self.metadata().clone())];
        own.chain(shared).collect::<valvehouse_json::Object>().into()
    }

    /// Creates a turn that starts now.
    pub fn new(facts: TurnFacts, context: Context, events: Events) -> Self {
        let states = facts.states.clone().unwrap_or_default();
        let context = match &facts.client {
            client @ Json::Object(_) => context.with_client(client.deep_clone()),
            _ => context,
        };
        let within = facts.nesting.as_ref().map(|nesting| nesting.0.clone());
        let shared = Inner {
            facts,
            states,
            exchange: Exchange::default(),
            load: OnceLock::new(),
            locals: Mutex::default(),
            events,
            observers: Observers::default(),
            pauses: OnceLock::new(),
            started: Instant::now(),
            kept: AtomicU64::new(0),
            has_long_event: AtomicBool::new(false),
            size: AtomicUsize::new(0),
            pending_flush: PendingFlush::default(),
            runner: Mutex::default(),
            afterwards: OnceLock::new(),
            over: watch::Sender::new(false),
        };
        Self(Arc::new(InContext { shared: Arc::new(shared), context, within, audited: None }))
    }

    /// Returns a handle of this turn with other variables, for one attempt of a tool call.
    #[must_use]
    pub fn in_context(&self, context: Context) -> Self {
        let InContext { shared, within, audited, .. } = &*self.0;
        let (within, audited) = (within.clone(), audited.clone());
        Self(Arc::new(InContext { shared: shared.clone(), context, within, audited }))
    }

    /// Returns the handle of this turn for a filter in audit mode: its variables and metadata are copies, its events
    /// have no receiver, and it neither changes the exchange nor asks anybody. The events of a stream share one copy.
    pub(crate) fn audited(&self, filter: &str, is_event: bool) -> Self {
        let sides = self.local::<AuditedSides>();
        let side = sides.side(filter, is_event, self.context(), self.exchange());
        let InContext { shared, within, .. } = &*self.0;
        let (context, within) = (side.context.clone(), within.clone());
        Self(Arc::new(InContext { shared: shared.clone(), context, within, audited: Some(side) }))
    }

    /// Returns `true` for the handle of a filter in audit mode.
    pub fn is_audited(&self) -> bool {
        self.0.audited.is_some()
    }

    /// Returns a handle of this turn within a tool call made by a plugin's script.
    ///
    /// # Errors
    /// Returns an error if calls are nested too deep or the scripts of this request have made too many tool
    /// calls.
    pub fn calling(&self, plugin: &str, tool: &str, args: &Json) -> Result<Self, TooManyCalls> {
        let InContext { shared, context, within, audited } = &*self.0;
        let within = Within::enter(within.as_ref(), self.load(), plugin, tool, args, self.pauses())?;
        Ok(Self(Arc::new(InContext {
            shared: shared.clone(),
            context: context.clone(),
            within: Some(within),
            audited: audited.clone(),
        })))
    }

    /// Returns the queue of tasks for the time after the answer. If no endpoint provides one, its tasks start
    /// at the end of the turn.
    pub fn afterwards(&self) -> &Afterwards {
        let Inner { facts, afterwards, .. } = &*self.0.shared;
        facts.afterwards.as_ref().unwrap_or_else(|| afterwards.get_or_init(Afterwards::default))
    }

    /// Returns the state for tasks that run after the turn.
    pub fn behind(&self) -> Behind {
        let facts = self.facts().clone();
        let exchange = facts.exchange.as_ref().map(|exchange| Arc::new(exchange.behind()));
        let facts = TurnFacts {
            exchange,
            trace: None,
            load: None,
            nesting: None,
            afterwards: Some(Afterwards::closed()),
            states: Some(self.0.shared.states.clone()),
            ..facts
        };
        Behind { facts, context: self.context().clone(), runner: self.runner() }
    }

    /// Returns the plugin whose script made the enclosing tool call.
    pub fn caller(&self) -> Option<&str> {
        self.0.within.as_ref().map(|within| within.plugin())
    }

    /// Returns the name for this turn's records of a plugin. It is the same in each run of a step and unique
    /// for each tool call by a script.
    pub fn recorded_by<'a>(&self, by: &'a str) -> Cow<'a, str> {
        match &self.0.within {
            None => by.into(),
            Some(within) => recorded_by(by, within.place()).into(),
        }
    }

    /// Returns the enclosing tool call by a script.
    pub fn nesting(&self) -> Option<NestedCall> {
        self.0.within.clone().map(NestedCall)
    }

    /// Runs the work of a call returned by [`Turn::calling`]; at most 8 run at a time at each depth.
    pub(crate) async fn within_limits<F: Future>(&self, work: F) -> F::Output {
        let _admitted = match &self.0.within {
            Some(within) => within.admitted().await,
            None => None,
        };
        work.await
    }

    /// Sets the runner of this turn.
    pub(crate) fn run_by(&self, runner: Runner) {
        *self.0.shared.runner.lock() = Some(runner);
    }

    /// Returns the runner of this turn.
    pub(crate) fn runner(&self) -> Option<Runner> {
        self.0.shared.runner.lock().clone()
    }

    /// Adds an observer to this turn. Each observer receives the notices of its kinds, in order.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        self.0.shared.observers.add(observer);
        self
    }

    /// Allows this turn to pause for a person and to resume later.
    #[must_use]
    pub fn pausing(self, pauses: Pauses) -> Self {
        let _ = self.0.shared.pauses.set(pauses);
        self
    }

    /// Returns the facts about the request.
    pub fn facts(&self) -> &TurnFacts {
        &self.0.shared.facts
    }

    /// Returns the headers, the credential and the retries of the request.
    pub fn exchange(&self) -> &Exchange {
        match &self.0.audited {
            Some(side) => &side.exchange,
            None => self.0.shared.facts.exchange.as_deref().unwrap_or(&self.0.shared.exchange),
        }
    }

    /// Records a field that the current model call does not send, for the response header, the trace and the log.
    pub fn leave_out(&self, provider: &str, name: &str) {
        if self.exchange().leave_out_too(provider, name)
            && let Some(trace) = self.trace()
        {
            trace.left_out(provider, &[name.to_owned()]);
        }
    }

    /// Returns the context of the turn: its variables, history and metadata.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// Returns the live metadata map that all hooks share.
    pub fn metadata(&self) -> &Json {
        self.0.context.metadata()
    }

    /// Returns the scratch map of a plugin, shared by its hooks.
    pub fn state(&self, plugin: &str) -> Json {
        self.0.shared.states.of(plugin)
    }

    /// Returns a copy of the scratch maps of all plugins.
    pub fn states(&self) -> Json {
        let states = self.0.shared.states.all().into_iter();
        Json::Object(states.map(|(plugin, state)| (plugin.as_str().into(), state.deep_clone())).collect())
    }

    /// Restores the scratch maps returned by [`Turn::states`].
    pub fn restore_states(&self, states: &Json) {
        let given = states.entries();
        let given = given.into_iter().map(|(plugin, state)| (plugin.to_string(), state.deep_clone()));
        *self.0.shared.states.0.lock() = given.collect();
    }

    /// Returns `true` if the state of a plugin's hooks and the metadata exceed `most` bytes. `kept` is the
    /// number of bytes stored by the last call; the total is computed only after enough of them.
    pub fn is_heavier_than(&self, most: usize, plugin: &str, kept: u64) -> bool {
        const WEIGHING_THRESHOLD: u64 = 4 << 20;
        if kept == 0 {
            return false;
        }
        self.0.shared.size.fetch_add(usize::try_from(kept).unwrap_or(usize::MAX), Relaxed);
        if self.0.shared.kept.fetch_add(kept, Relaxed) + kept < WEIGHING_THRESHOLD {
            return false;
        }
        self.0.shared.kept.store(0, Relaxed);
        self.state(plugin).size_estimate() + self.metadata().size_estimate() > most
    }

    /// Returns the value of this type that lasts as long as the turn, creating it on first use. Higher layers
    /// use it for per-turn state that this package does not know.
    pub fn local<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut locals = self.0.shared.locals.lock();
        let local = locals.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(locals);
        local.downcast().unwrap_or_default()
    }

    /// Returns the events that plugins emit.
    pub fn events(&self) -> &Events {
        self.0.audited.as_ref().map_or(&self.0.shared.events, |side| &side.events)
    }

    /// Sends a notice to the observers of its kind. It is built only if there are any.
    pub fn notify(&self, kind: NoticeKind, notice: impl FnOnce() -> Notice) {
        if self.is_observed(kind) {
            self.0.shared.observers.notice(kind, notice());
        }
    }

    /// Returns the load of the request.
    pub fn load(&self) -> &Arc<Load> {
        let shared = &self.0.shared;
        shared.facts.load.as_ref().unwrap_or_else(|| shared.load.get_or_init(Arc::default))
    }

    /// Returns the trace that records the steps of the turn, if any.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.0.shared.facts.trace.as_ref()
    }

    /// Emits an event of a plugin, `{type, data}`, and notifies the observers.
    ///
    /// # Errors
    /// Returns an error if the event cannot be written or the turn has emitted too many.
    pub fn emit(&self, by: &str, event: impl Into<Json>) -> Result<(), UnsentEvent> {
        let event = event.into();
        self.events().emit(event.clone())?;
        if let Some(trace) = self.trace() {
            trace.emitted(by, &event);
        }
        if self.0.audited.is_none() {
            self.notify(NoticeKind::Emitted, || Notice::Emitted { event });
        }
        Ok(())
    }

    /// Emits a status of a plugin, such as its progress, for clients that show it. `done` ends the status.
    ///
    /// # Errors
    /// Returns the errors of [`Turn::emit`].
    pub fn emit_status(&self, by: &str, text: &str, done: bool) -> Result<(), UnsentEvent> {
        let data = Json::from([("description", text.into()), ("done", done.into())]);
        self.emit(by, [("type", "status".into()), ("data", data)])
    }

    /// Returns `true` if an observer receives notices of one of these kinds.
    pub fn is_observed(&self, kinds: impl Into<NoticeKinds>) -> bool {
        self.0.shared.observers.receive(kinds.into())
    }

    /// Returns the questions of this turn if it can pause for a person.
    pub fn pauses(&self) -> Option<&Pauses> {
        self.0.shared.pauses.get().filter(|_| self.0.audited.is_none())
    }

    /// Returns `true` if this turn is paused for a person.
    pub fn is_paused(&self) -> bool {
        self.pauses().is_some_and(Pauses::is_paused)
    }

    /// Asks a person a question and returns the answer. If the client cannot answer and this turn can pause,
    /// the turn pauses until the run is resumed with an answer.
    ///
    /// # Errors
    /// Returns an error if nobody can answer, or after the timeout.
    pub async fn ask(&self, by: &str, question: Json, timeout: Duration) -> Result<Json, NobodyAnswers> {
        let Some(pauses) = self.pauses() else { return self.events().ask(question, timeout).await };
        let place = self.0.within.as_ref().map(|within| within.place()).unwrap_or_default();
        let (pending, answer) = pauses.question_with_answer(by, place, &question);
        if let Some(answer) = answer {
            return Ok(answer);
        }
        match self.events().ask(question, timeout).await {
            Err(NobodyAnswers::NoListener | NobodyAnswers::Gone) => {
                pauses.pause(pending);
                Err(NobodyAnswers::Paused)
            }
            Ok(answer) => {
                // If this step runs again, the stored answer is used.
                pauses.answer(pending.hash(), answer.deep_clone());
                Ok(answer)
            }
            nobody => nobody,
        }
    }

    /// Asks a person as [`Turn::ask`] does. If the client cannot answer and this turn cannot pause, the host
    /// holds the question, with the model, the user and the trace of the turn, until an operator answers.
    ///
    /// # Errors
    /// Returns an error if nobody can answer, or after the timeout.
    pub async fn ask_or_hold(
        &self,
        by: &str,
        question: Json,
        timeout: Duration,
    ) -> Result<Json, NobodyAnswers> {
        if self.pauses().is_some() || !self.events().holds() {
            return self.ask(by, question, timeout).await;
        }
        let facts = self.facts();
        let about = [
            ("by", by.into()),
            ("model", facts.model.field("id")),
            ("user", facts.user.field("id")),
            ("chat_id", facts.chat_id.as_str().into()),
            ("trace", self.trace().map(|trace| trace.id.as_str()).into()),
        ];
        let about = question.entries().into_iter().chain(about.map(|(key, value)| (key.into(), value)));
        self.events().hold(about.collect::<Object>().into(), timeout).await
    }

    /// Returns `true` if the current event of the stream hooks holds the text of many events, as in an answer
    /// that was not streamed.
    pub fn has_long_event(&self) -> bool {
        self.0.shared.has_long_event.load(Relaxed)
    }

    /// Sets whether the next event of the stream hooks holds the text of many events.
    pub fn set_long_event(&self, is_long: bool) {
        self.0.shared.has_long_event.store(is_long, Relaxed);
    }

    /// Returns the approximate size in bytes of the largest value passed to or returned by the hooks of this
    /// turn so far.
    pub fn size(&self) -> usize {
        self.0.shared.size.load(Relaxed)
    }

    /// Records the size of a value that will be passed to hooks.
    pub fn note_size(&self, bytes: usize) {
        self.0.shared.size.fetch_max(bytes, Relaxed);
    }

    /// Makes the end of this turn wait for a write. Write numbers of one target only increase.
    pub fn flush_before_end(&self, target: Arc<dyn Durable>, write: u64) {
        self.0.shared.pending_flush.add(target, write);
    }

    /// Waits until the writes of this turn are on disk.
    ///
    /// # Errors
    /// Returns an error if the writes fail.
    pub async fn flush(&self) -> Result<(), Error> {
        self.0.shared.pending_flush.flush().await
    }

    /// Waits for the writes of this turn and returns its result. The turn's own error takes precedence.
    ///
    /// # Errors
    /// Returns the error of the turn or, without one, that of the writes.
    pub async fn flushed<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        match (self.flush().await, result) {
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(first)) => {
                tracing::warn!("cannot flush the writes of a turn: {error}");
                Err(first)
            }
            (Ok(()), result) => result,
        }
    }

    /// Returns the time at which the turn started.
    pub fn started(&self) -> Instant {
        self.0.shared.started
    }

    /// Returns a guard that ends the turn when dropped, which cancels the work that still runs for it.
    #[must_use]
    pub fn until_dropped(&self) -> EndOfTurn {
        EndOfTurn(self.0.shared.clone())
    }

    /// Runs the work of this turn. If the future is dropped early, the turn is marked as over before its work
    /// is dropped, so that canceled parts can detect the reason.
    pub async fn lasting<F: Future>(&self, work: F) -> F::Output {
        TurnWork { _over: self.until_dropped(), work: Box::pin(work) }.await
    }

    /// Returns `true` if the turn has ended or its client disconnected.
    pub fn is_over(&self) -> bool {
        *self.0.shared.over.borrow()
    }

    /// Logs the failure of a plugin. A call that was canceled with its turn did not fail.
    pub fn log_failure(&self, failure: &PluginError) {
        let PluginError { plugin, hook, cause, .. } = failure;
        match self.is_over() {
            true => tracing::debug!(plugin, hook, "canceled with its turn: {cause}"),
            false => tracing::error!(plugin, hook, "{cause}"),
        }
    }

    /// Waits until the turn has ended or its client disconnected.
    pub async fn over(&self) {
        // The sender lives as long as the turn, so this cannot fail.
        let _ = self.0.shared.over.subscribe().wait_for(|over| *over).await;
    }
}

/// The state of a finished turn for tasks that run after it: facts, variables, script state and tools.
pub struct Behind {
    facts: TurnFacts,
    context: Context,
    runner: Option<Runner>,
}

impl Behind {
    /// Returns the facts of the finished turn.
    pub fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    /// Creates a turn for a task after the finished one. Its events have no receiver, and it schedules no
    /// tasks.
    pub fn turn(self, trace: Option<Arc<Trace>>) -> Turn {
        if let (Some(trace), Some(exchange)) = (&trace, &self.facts.exchange) {
            exchange.count_in(trace);
        }
        let turn = Turn::new(TurnFacts { trace, ..self.facts }, self.context, Events::default());
        if let Some(runner) = self.runner {
            turn.run_by(runner);
        }
        turn
    }
}

/// The work of a turn. The order of the fields is their drop order.
struct TurnWork<F> {
    _over: EndOfTurn,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for TurnWork<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<F::Output> {
        self.work.as_mut().poll(context)
    }
}

/// A guard that ends its turn when dropped.
pub struct EndOfTurn(Arc<Inner>);

impl Drop for EndOfTurn {
    fn drop(&mut self) {
        self.0.over.send_replace(true);
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("facts", self.facts())
            .field("context", self.context())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for EndOfTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EndOfTurn")
    }
}
