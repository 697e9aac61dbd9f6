//! One turn: who asks, with what, since when; and the scratch space of its scripts.

use super::afterwards::Afterwards;
use super::durable::{Durable, PendingFlush};
use super::event::{Events, NobodyAnswers, Unsent};
use super::exchange::Exchange;
use super::nested::Load;
use super::nested::{Nesting, Runner, TooManyCalls, Within, recorded_by};
use super::observer::{Notice, Observer};
use super::pause::Pauses;
use super::variables::Context;
use crate::fault::Fault;
use crate::trace::Trace;
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{self, Poll};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use valvehouse_json::{Json, Object};

/// The facts about a request that a door knows before anything runs.
#[derive(Debug, Clone, Default)]
pub struct TurnFacts {
    /// `id name email role` and whatever else came along.
    pub user: Json,
    /// `id name provider` and the configuration's words, null for an unknown model.
    pub model: Json,
    /// The models there are, a list of the same.
    pub models: Json,
    /// `method path headers client`, credentials removed.
    pub request: Json,
    /// The conversation, "" where there is none.
    pub chat_id: String,
    /// The message that is being answered.
    pub message_id: String,
    /// Features the client asked for.
    pub features: Json,
    /// Uploaded files.
    pub files: Json,
    /// The toggle filters the request asked for.
    pub filter_ids: Vec<String>,
    /// Variables that the configuration sets: no request can change them. Null where there are none.
    pub variables: Json,
    /// Variables that the client sent, an object; null where it sent none.
    pub client: Json,
    /// Plugins whose own question to a model this turn is.
    pub callers: Vec<String>,
    /// The trace in which its steps are recorded, if any.
    pub trace: Option<Arc<Trace>>,
    /// Scratch maps that it shares with other parts of itself, where it comes in parts.
    pub states: Option<States>,
    /// The headers, the credential and the retries of the request, where an endpoint took it.
    pub exchange: Option<Arc<Exchange>>,
    /// The load of the request whose part this turn is, where it is a question of a script.
    pub load: Option<Arc<Load>>,
    /// The call of a tool that this turn is a part of, where it is a question of a script.
    pub nesting: Option<Nesting>,
    /// The work that is left for the time when the client has its answer, where an endpoint knows that time.
    pub afterwards: Option<Afterwards>,
}

/// The scratch maps of plugins, by id; a clone is the same maps.
#[derive(Debug, Clone, Default)]
pub struct States(Arc<Mutex<HashMap<String, Json>>>);

impl States {
    /// The map of one plugin.
    pub fn of(&self, plugin: &str) -> Json {
        let mut states = self.0.lock();
        match states.get(plugin) {
            Some(state) => state.clone(),
            None => states.entry(plugin.to_owned()).or_insert_with(Json::object).clone(),
        }
    }

    /// Forgets the map of one plugin.
    pub(super) fn remove(&self, plugin: &str) {
        self.0.lock().remove(plugin);
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<(String, Json)> {
        self.0.lock().iter().map(|(plugin, state)| (plugin.clone(), state.clone())).collect()
    }
}

/// The facts that are written down; those of the models are read anew.
const WRITTEN: [&str; 9] = [
    "user",
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
    /// As one object, without what is known of the models.
    pub fn to_json(&self) -> Json {
        let ids: Vec<Json> = self.filter_ids.iter().map(|id| id.as_str().into()).collect();
        let values = [
            self.user.copy(),
            self.request.copy(),
            self.chat_id.as_str().into(),
            self.message_id.as_str().into(),
            self.features.copy(),
            self.files.copy(),
            ids.into(),
            self.variables.copy(),
            self.client.copy(),
        ];
        WRITTEN.into_iter().map(|name| name.into()).zip(values).collect::<Object>().into()
    }

    /// Reads what [`TurnFacts::to_json`] wrote.
    pub fn from_json(json: &Json) -> Self {
        let part = |name: &str| json.field(name).copy();
        let text = |name: &str| json.string(name);
        Self {
            user: part("user"),
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

/// The facts with which the turn of a trace began, as far as they are kept, to run it once more: without the models,
/// and with its variables and metadata.
pub fn begun_again(trace: &Trace) -> (TurnFacts, Context) {
    let begun = Json::from(trace.facts().cloned());
    let part = |name: &str| begun.field(name).copy();
    let context = Context::new(part("variables"));
    if let (Json::Object(own), Json::Object(kept)) = (context.metadata(), part("metadata")) {
        // A new container takes what is nobody else's.
        let _ = own.replace(kept.entries());
    }
    (TurnFacts { model: part("model").freeze(), ..TurnFacts::from_json(&begun) }, context)
}

/// A turn in progress; a clone is the same turn, for the price of one count: every call takes one.
#[derive(Clone)]
pub struct Turn(Arc<InContext>);

struct InContext {
    shared: Arc<Inner>,
    context: Context,
    /// The call of a tool by a script that this is a part of.
    within: Option<Arc<Within>>,
}

struct Inner {
    facts: TurnFacts,
    states: States,
    /// The exchange of a turn that no endpoint began.
    exchange: Exchange,
    /// The load of a request that no script's question is.
    load: OnceLock<Arc<Load>>,
    locals: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    events: Events,
    observer: OnceLock<Arc<dyn Observer>>,
    pauses: OnceLock<Pauses>,
    started: Instant,
    /// The bytes that calls have kept since the turn was last weighed.
    kept: AtomicU64,
    /// The event that its stream hooks see has the text of many.
    has_long_event: AtomicBool,
    /// The size of the largest value that its hooks were given, and what they made of it, in bytes, about.
    size: AtomicUsize,
    pending_flush: PendingFlush,
    /// The runner of the turn.
    runner: Mutex<Option<Runner>>,
    /// The work that is left by a turn whose endpoint does not know its end.
    afterwards: OnceLock<Afterwards>,
    over: watch::Sender<bool>,
}

impl Default for Turn {
    fn default() -> Self {
        Self::new(TurnFacts::default(), Context::default(), Events::default())
    }
}

impl Turn {
    /// Returns the subject of a native hook: named parts, and the turn's context and metadata.
    pub fn ctx_of<const N: usize>(&self, parts: [(&str, Json); N]) -> Json {
        let own = parts.into_iter().map(|(name, value)| (name.into(), value));
        let shared =
            [("context".into(), self.context().as_json()), ("metadata".into(), self.metadata().clone())];
        own.chain(shared).collect::<valvehouse_json::Object>().into()
    }

    /// A turn that starts now.
    pub fn new(facts: TurnFacts, context: Context, events: Events) -> Self {
        let states = facts.states.clone().unwrap_or_default();
        let context = match &facts.client {
            client @ Json::Object(_) => context.with_client(client.copy()),
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
            observer: OnceLock::new(),
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
        Self(Arc::new(InContext { shared: Arc::new(shared), context, within }))
    }

    /// The same turn with other variables: what one try of a tool works on.
    #[must_use]
    pub fn in_context(&self, context: Context) -> Self {
        let InContext { shared, within, .. } = &*self.0;
        Self(Arc::new(InContext { shared: shared.clone(), context, within: within.clone() }))
    }

    /// The same turn within a call of a tool that a plugin's script makes.
    ///
    /// # Errors
    /// Returns an error if calls are nested too deep, or if the scripts of this request have called too many tools.
    pub fn calling(&self, plugin: &str, tool: &str, args: &Json) -> Result<Self, TooManyCalls> {
        let InContext { shared, context, within } = &*self.0;
        let within = Within::enter(within.as_ref(), self.load(), plugin, tool, args, self.pauses())?;
        Ok(Self(Arc::new(InContext {
            shared: shared.clone(),
            context: context.clone(),
            within: Some(within),
        })))
    }

    /// Returns the work for the time when the client has its answer; without an endpoint that knows it, for the end
    /// of the turn.
    pub fn afterwards(&self) -> &Afterwards {
        let Inner { facts, afterwards, .. } = &*self.0.shared;
        facts.afterwards.as_ref().unwrap_or_else(|| afterwards.get_or_init(Afterwards::default))
    }

    /// Returns the state of this turn when it is over.
    pub fn behind(&self) -> Behind {
        let facts = self.facts().clone();
        let exchange = facts.exchange.as_ref().map(|exchange| Arc::new(exchange.beside()));
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

    /// The plugin whose script makes the call of a tool that this is a part of.
    pub fn caller(&self) -> Option<&str> {
        self.0.within.as_ref().map(|within| within.plugin())
    }

    /// Returns the name of its records, where it may pause: the same in each run of a step, and another one for each
    /// call of a tool by a script.
    pub fn recorded_by<'a>(&self, by: &'a str) -> Cow<'a, str> {
        match &self.0.within {
            None => by.into(),
            Some(within) => recorded_by(by, within.place()).into(),
        }
    }

    /// Returns the call of a tool by a script that this is a part of.
    pub fn nesting(&self) -> Option<Nesting> {
        self.0.within.clone().map(Nesting)
    }

    /// Runs the work of a call that [`Turn::calling`] returned: at most 8 at a time at each depth.
    pub(crate) async fn within_limits<F: Future>(&self, work: F) -> F::Output {
        let _admitted = match &self.0.within {
            Some(within) => within.admitted().await,
            None => None,
        };
        work.await
    }

    /// Sets what runs this turn from now on.
    pub(crate) fn run_by(&self, runner: Runner) {
        *self.0.shared.runner.lock() = Some(runner);
    }

    /// Returns the runner of this turn.
    pub(crate) fn runner(&self) -> Option<Runner> {
        self.0.shared.runner.lock().clone()
    }

    /// The same turn, which tells of itself what happens.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        // A turn has one observer, and is given it before it runs.
        let _ = self.0.shared.observer.set(observer);
        self
    }

    /// The same turn, which may stop for a person and go on later.
    #[must_use]
    pub fn pausing(self, pauses: Pauses) -> Self {
        let _ = self.0.shared.pauses.set(pauses);
        self
    }

    /// The facts that the door knew.
    pub fn facts(&self) -> &TurnFacts {
        &self.0.shared.facts
    }

    /// The headers, the credential and the retries of the request.
    pub fn exchange(&self) -> &Exchange {
        self.0.shared.facts.exchange.as_deref().unwrap_or(&self.0.shared.exchange)
    }

    /// The variables that travel along.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The one live map all hooks share.
    pub fn metadata(&self) -> &Json {
        self.0.context.metadata()
    }

    /// The scratch map of one plugin, shared by its hooks.
    pub fn state(&self, plugin: &str) -> Json {
        self.0.shared.states.of(plugin)
    }

    /// The scratch maps of all plugins, as they are now.
    pub fn states(&self) -> Json {
        let states = self.0.shared.states.all().into_iter();
        Json::Object(states.map(|(plugin, state)| (plugin.as_str().into(), state.copy())).collect())
    }

    /// Gives the plugins the scratch maps that [`Turn::states`] told of.
    pub fn restore_states(&self, states: &Json) {
        let given = states.entries();
        let given = given.into_iter().map(|(plugin, state)| (plugin.to_string(), state.copy()));
        *self.0.shared.states.0.lock() = given.collect();
    }

    /// Returns `true` if what a plugin's hooks keep for each other, in its `state` and in the metadata, takes more than
    /// this. A call has just kept `kept` bytes: most keep next to nothing, and only now and then it is worth to weigh
    /// all of it.
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
        self.state(plugin).weight() + self.metadata().weight() > most
    }

    /// The one value of this type that lasts as long as this turn; made when it is first asked for.
    /// For what later floors keep for a turn and this one need not know.
    pub fn local<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut locals = self.0.shared.locals.lock();
        let local = locals.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(locals);
        local.downcast().unwrap_or_default()
    }

    /// The events that plugins emit.
    pub fn events(&self) -> &Events {
        &self.0.shared.events
    }

    /// Tells whoever watches this turn; nothing is made where nobody does.
    pub fn tell(&self, notice: impl FnOnce() -> Notice) {
        if let Some(observer) = self.0.shared.observer.get() {
            observer.notice(notice());
        }
    }

    /// Returns the work of its request in scripts.
    pub fn load(&self) -> &Arc<Load> {
        let shared = &self.0.shared;
        shared.facts.load.as_ref().unwrap_or_else(|| shared.load.get_or_init(Arc::default))
    }

    /// The trace in which its steps are recorded, if any.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.0.shared.facts.trace.as_ref()
    }

    /// Sends an event of a plugin, and tells whoever watches.
    pub fn emit(&self, by: &str, event: Json) -> Result<(), Unsent> {
        self.events().emit(event.clone())?;
        if let Some(trace) = self.trace() {
            trace.emitted(by, &event);
        }
        self.tell(|| Notice::Emitted { event });
        Ok(())
    }

    /// Returns `true` if somebody watches this turn.
    pub fn is_observed(&self) -> bool {
        self.0.shared.observer.get().is_some()
    }

    /// The questions of this turn, where it may stop for a person.
    pub fn pauses(&self) -> Option<&Pauses> {
        self.0.shared.pauses.get()
    }

    /// Returns `true` if this turn stops for a person.
    pub fn is_paused(&self) -> bool {
        self.pauses().is_some_and(Pauses::is_paused)
    }

    /// Asks a person: whoever listens now or, where nobody does (any more) and this turn may pause, whoever
    /// goes on with it later.
    pub async fn ask(&self, by: &str, question: Json, timeout: Duration) -> Result<Json, NobodyAnswers> {
        let Some(pauses) = self.pauses() else { return self.events().ask(question, timeout).await };
        let place = self.0.within.as_ref().map(|within| within.place()).unwrap_or_default();
        let (pending, answer) = pauses.asked(by, place, &question);
        if let Some(answer) = answer {
            return Ok(answer);
        }
        match self.events().ask(question, timeout).await {
            Err(NobodyAnswers::NoListener | NobodyAnswers::Gone) => {
                pauses.pause(pending);
                Err(NobodyAnswers::Paused)
            }
            Ok(answer) => {
                // Should this step run again, it is not asked again.
                pauses.answer(pending.hash(), answer.copy());
                Ok(answer)
            }
            nobody => nobody,
        }
    }

    /// Asks a person as [`Turn::ask`] does. Where the client cannot be asked and this turn cannot pause, the question is
    /// held at the host, with the model, the user and the trace of the turn, until an operator answers.
    ///
    /// # Errors
    /// Returns the reason for which nobody answered.
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

    /// Returns `true` if the event that its stream hooks see has the text of many: an answer that came whole.
    pub fn has_long_event(&self) -> bool {
        self.0.shared.has_long_event.load(Relaxed)
    }

    /// Sets whether the next event of its stream hooks has the text of many.
    pub fn set_long_event(&self, is_long: bool) {
        self.0.shared.has_long_event.store(is_long, Relaxed);
    }

    /// Returns the size in bytes, about, of the largest value that hooks of this turn were given so far, with what they
    /// made of it.
    pub fn size(&self) -> usize {
        self.0.shared.size.load(Relaxed)
    }

    /// Records the size of a value that hooks are going to be given.
    pub fn note_size(&self, bytes: usize) {
        self.0.shared.size.fetch_max(bytes, Relaxed);
    }

    /// Makes the end of this turn wait until this write is on disk. Numbers of one target only grow.
    pub fn flush_before_end(&self, target: Arc<dyn Durable>, write: u64) {
        self.0.shared.pending_flush.add(target, write);
    }

    /// Waits until the writes of this turn are on disk; returns at once where there are none.
    ///
    /// # Errors
    /// Returns an error if the writes fail.
    pub async fn flush(&self) -> Result<(), Fault> {
        self.0.shared.pending_flush.flush().await
    }

    /// Adds the flush to the end of the turn's work. A turn that failed already keeps its own error.
    pub async fn flushed<T>(&self, result: Result<T, Fault>) -> Result<T, Fault> {
        match (self.flush().await, result) {
            (Err(fault), Ok(_)) => Err(fault),
            (Err(fault), Err(first)) => {
                tracing::warn!("cannot write what a turn stored: {fault}");
                Err(first)
            }
            (Ok(()), result) => result,
        }
    }

    /// The time at which it began.
    pub fn started(&self) -> Instant {
        self.0.shared.started
    }

    /// Ends the turn when what it returns is dropped: whoever still works for it may stop.
    #[must_use]
    pub fn until_dropped(&self) -> EndOfTurn {
        EndOfTurn(self.0.shared.clone())
    }

    /// Does the work of this turn. When that is dropped before its end, the turn is over before anything of
    /// the work is: who is stopped then knows why.
    pub async fn lasting<F: Future>(&self, work: F) -> F::Output {
        Lasting { _over: self.until_dropped(), work: Box::pin(work) }.await
    }

    /// Returns `true` if nobody waits for this turn any more.
    pub fn is_over(&self) -> bool {
        *self.0.shared.over.borrow()
    }

    /// Waits until nobody waits for this turn any more.
    pub async fn over(&self) {
        // The sender lives as long as this turn does.
        let _ = self.0.shared.over.subscribe().wait_for(|over| *over).await;
    }
}

/// The state of a turn when it is over: its facts, its variables, what its scripts kept, and its tools.
pub struct Behind {
    facts: TurnFacts,
    context: Context,
    runner: Option<Runner>,
}

impl Behind {
    /// The facts of the turn that was.
    pub fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    /// A turn behind the one that was: nobody hears its events, and it leaves no work.
    pub fn turn(self, trace: Option<Arc<Trace>>) -> Turn {
        let turn = Turn::new(TurnFacts { trace, ..self.facts }, self.context, Events::default());
        if let Some(runner) = self.runner {
            turn.run_by(runner);
        }
        turn
    }
}

/// The work of a turn. Fields are dropped in this order.
struct Lasting<F> {
    _over: EndOfTurn,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Lasting<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<F::Output> {
        self.work.as_mut().poll(context)
    }
}

/// Ends its turn when it is dropped, however the work on it ended.
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
