//! The traces of current and recent requests, and notifications about them.

use super::facts::{Contents, MAX_CONTENTS, MAX_LENGTH, RequestEnd, RequestFacts, short};
use super::guard_coverage::GuardCoverage;
use super::prompt_cache::PromptCaches;
use super::queue::TraceQueue;
use super::request_scope::RequestScope;
use super::trace::{News, Pricing, Trace, TraceList, publish};
use crate::context::Afterwards;
use crate::valve::{Redactor, SecretGroup};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};
use tokio::sync::broadcast;
use valvehouse_json::Json;

/// The maximum number of notifications buffered for a slow receiver.
const NEWS: usize = 1_024;

/// The traces of current and recent requests.
pub struct Traces {
    /// The maximum number of stored finished requests.
    kept: usize,
    host: String,
    next: AtomicU64,
    live: Mutex<BTreeMap<u64, Arc<Trace>>>,
    past: Mutex<Past>,
    queue: OnceLock<TraceQueue>,
    contents: Mutex<Arc<BTreeSet<String>>>,
    /// Set if the texts of all requests are recorded.
    everything: AtomicBool,
    news: broadcast::Sender<News>,
    coverage: GuardCoverage,
    prompt_caches: Arc<PromptCaches>,
    redactor: Redactor,
    pricing: OnceLock<Arc<dyn Pricing>>,
}

impl Traces {
    /// Creates an empty collection that stores up to `kept` finished requests.
    pub fn new(kept: usize) -> Arc<Self> {
        Self::redacting(kept, &SecretGroup::default())
    }

    /// Creates an empty collection like [`Traces::new`], which redacts these secrets in the names of models.
    pub fn redacting(kept: usize, secrets: &SecretGroup) -> Arc<Self> {
        let host = uuid::Uuid::new_v4().simple().to_string();
        Arc::new(Self {
            kept,
            host: host[..8].to_owned(),
            next: AtomicU64::new(1),
            live: Mutex::default(),
            past: Mutex::default(),
            queue: OnceLock::new(),
            contents: Mutex::default(),
            everything: AtomicBool::new(false),
            news: broadcast::channel(NEWS).0,
            coverage: GuardCoverage::default(),
            prompt_caches: PromptCaches::new(),
            redactor: Redactor::default().among(secrets),
            pricing: OnceLock::new(),
        })
    }

    /// Sets the prices of models; without them, the cost of requests is 0.
    pub fn price(&self, pricing: Arc<dyn Pricing>) {
        // An application has one list of prices.
        let _ = self.pricing.set(pricing);
    }

    /// Starts a trace, which ends when the returned value is dropped. With `everything`, all values are recorded, in
    /// memory only.
    pub fn begin(self: &Arc<Self>, mut request: RequestFacts, everything: bool) -> TraceGuard {
        if let Cow::Owned(redacted) = self.redactor.redact(&request.model) {
            request.model = redacted;
        }
        for name in [&mut request.model, &mut request.user, &mut request.chat_id] {
            if name.len() > MAX_LENGTH {
                *name = short(name);
            }
        }
        let configured = match self.keeps_everything() {
            true => Contents::All,
            false => match &*self.contents.lock() {
                plugins if plugins.is_empty() => Contents::None,
                plugins => Contents::Of(plugins.clone()),
            },
        };
        let number = self.next.fetch_add(1, Relaxed);
        let trace = Arc::new(Trace {
            id: [&self.host, "-", itoa::Buffer::new().format(number)].concat(),
            request,
            begun: SystemTime::now(),
            started: Instant::now(),
            contents: if everything { Contents::All } else { configured.clone() },
            configured,
            facts: OnceLock::new(),
            parent: OnceLock::new(),
            taken: Mutex::default(),
            ended: OnceLock::new(),
            news: self.news.clone(),
            prompt_caches: self.prompt_caches.clone(),
            tokens: Default::default(),
            token_kinds: Default::default(),
            cost: AtomicU64::new(0),
            pricing: self.pricing.get().cloned(),
            key: OnceLock::new(),
            redactor: self.redactor.clone(),
        });
        RequestScope::begins(&trace);
        self.live.lock().insert(number, trace.clone());
        publish(&self.news, || News::Begun(trace.clone()));
        TraceGuard {
            trace,
            number,
            traces: self.clone(),
            status: 0,
            afterwards: None,
            at_end: None,
            meter: None,
        }
    }

    /// Returns the running requests, the oldest first.
    pub fn live(&self) -> Vec<Arc<Trace>> {
        self.live.lock().values().cloned().collect()
    }

    /// Returns the number of running requests.
    pub fn running(&self) -> usize {
        self.live.lock().len()
    }

    /// Returns the stored finished requests, the latest first.
    pub fn past(&self) -> Vec<Arc<Trace>> {
        self.past.lock().traces.iter().rev().cloned().collect()
    }

    /// Returns the maximum number of stored finished requests.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Returns the trace of an id, `None` for an unknown id.
    pub fn find(&self, id: &str) -> Option<Arc<Trace>> {
        let is_it = |trace: &&Arc<Trace>| trace.id == id;
        let live = self.live.lock().values().find(is_it).cloned();
        live.or_else(|| self.past.lock().traces.iter().find(is_it).cloned())
    }

    /// Returns the queue of ended requests that wait to be stored, if there is one.
    pub fn queue(&self) -> Option<&TraceQueue> {
        self.queue.get()
    }

    /// Adds requests that end from now on to a queue, from which they can be stored.
    pub fn fill_queue(&self) {
        self.queue.get_or_init(TraceQueue::default);
    }

    /// Returns the plugins whose values are recorded.
    pub fn contents(&self) -> Arc<BTreeSet<String>> {
        self.contents.lock().clone()
    }

    /// Starts or stops recording the values of a plugin.
    pub fn keep_contents(&self, plugin: &str, keep: bool) {
        let mut contents = self.contents.lock();
        let mut plugins = (**contents).clone();
        if keep {
            plugins.insert(plugin.to_owned())
        } else {
            plugins.remove(plugin)
        };
        *contents = Arc::new(plugins);
    }

    /// Starts recording all values of all requests, and the answers of models before any filter. This parses
    /// every answer, even if its bytes are passed through, so it is intended for development.
    pub fn keep_everything(&self) {
        self.everything.store(true, Relaxed);
    }

    /// Returns `true` if everything is recorded.
    pub fn keeps_everything(&self) -> bool {
        self.everything.load(Relaxed)
    }

    /// Returns the counts of filters that ran in the requests of the last hour.
    pub fn coverage(&self) -> &GuardCoverage {
        &self.coverage
    }

    /// Subscribes to notifications from now on.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    fn end(&self, number: u64, trace: &Arc<Trace>) {
        self.live.lock().remove(&number);
        self.coverage.add(trace);
        if let Some(queue) = self.queue.get() {
            queue.add(trace);
        }
        if self.kept > 0 {
            self.past.lock().add(trace, self.kept);
        }
        publish(&self.news, || News::Ended(trace.clone()));
    }
}

/// The finished requests in memory. Keys share the room for them, and that for their contents.
#[derive(Debug, Default)]
struct Past {
    traces: TraceList,
    /// Those with contents.
    contents: TraceList,
}

impl Past {
    fn add(&mut self, trace: &Arc<Trace>, most: usize) {
        let number = self.traces.push(trace.owner(), 0, trace.clone());
        if trace.content() > 0 {
            self.contents.insert(number, trace.owner(), trace.content(), trace.clone());
        }
        for (number, _) in self.traces.fit(most, 0) {
            self.contents.remove(number);
        }
        for (_, older) in self.contents.fit(usize::MAX, MAX_CONTENTS) {
            older.forget_contents();
        }
    }
}

type AtEnd = Box<dyn FnOnce(&Trace) + Send + Sync>;
type Meter = Box<dyn Fn(&Trace) -> Option<BoxFuture<'static, ()>> + Send + Sync>;

/// Sets up the count of what a request uses, and of what the work uses that it leaves for after its answer: for the
/// limits of its key and the usage.
#[derive(Clone, Default)]
pub struct Counting(Option<Arc<SetUp>>);

type SetUp = dyn Fn(&mut TraceGuard) + Send + Sync;

impl Counting {
    /// Creates a count, which is set up by this function for each trace.
    pub fn new(set_up: impl Fn(&mut TraceGuard) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(set_up)))
    }

    /// Counts what is used in a trace.
    pub fn begin(&self, recording: &mut TraceGuard) {
        if let Some(set_up) = &self.0 {
            set_up(recording);
        }
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counting({})", self.0.is_some())
    }
}

/// The trace of a running request, which ends when this value is dropped.
pub struct TraceGuard {
    trace: Arc<Trace>,
    number: u64,
    traces: Arc<Traces>,
    status: u16,
    /// The scheduled tasks, which start with the end of the request.
    afterwards: Option<Afterwards>,
    /// Receives the trace at the end of the request.
    at_end: Option<AtEnd>,
    meter: Option<Meter>,
}

impl TraceGuard {
    /// Sets a function that counts what the request has used since its last call. It returns a write that must end
    /// before the client receives more.
    pub fn meter(
        &mut self,
        meter: impl Fn(&Trace) -> Option<BoxFuture<'static, ()>> + Send + Sync + 'static,
    ) {
        self.meter = Some(Box::new(meter));
    }

    /// Counts what the request has used so far. Returns the write that must end before the client receives more.
    pub fn count(&self) -> Option<BoxFuture<'static, ()>> {
        self.meter.as_ref()?(&self.trace)
    }

    /// Sets a function that receives the trace at the end of the request.
    pub fn at_end(&mut self, at_end: impl FnOnce(&Trace) + Send + Sync + 'static) {
        self.at_end = Some(Box::new(at_end));
    }

    /// Returns the trace.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Returns the queue of tasks that start when the request has ended.
    pub fn afterwards(&mut self) -> Afterwards {
        self.afterwards.get_or_insert_default().clone()
    }

    /// Returns `true` if a task is scheduled.
    pub fn leaves_work(&self) -> bool {
        self.afterwards.as_ref().is_some_and(|afterwards| !afterwards.is_empty())
    }

    /// Records an error and returns it.
    pub fn failed<F: std::fmt::Display>(&self, error: F) -> F {
        self.trace.fail(&error.to_string());
        error
    }

    /// Records the status of the answer.
    pub fn answered(&mut self, status: u16) {
        self.status = status;
    }

    /// Records that the client has received the complete answer.
    pub fn done(mut self) {
        self.end(true);
    }

    /// Ends a request that has no client, with an error or with status 200. Returns its details.
    pub fn ended_with(mut self, error: Option<&dyn std::fmt::Display>) -> Json {
        match error {
            Some(error) => self.trace.fail(&error.to_string()),
            None => self.status = 200,
        }
        self.end(true);
        self.trace.detail()
    }

    fn end(&mut self, whole: bool) {
        let (took, error) = (self.trace.elapsed(), self.trace.error());
        let ended = RequestEnd { status: self.status, error, whole, took };
        if self.trace.ended.set(ended).is_ok() {
            // Nobody waits for this write: the client has all it gets.
            drop(self.count());
            if let Some(at_end) = self.at_end.take() {
                at_end(&self.trace);
            }
            self.traces.end(self.number, &self.trace);
        }
    }
}

impl Drop for TraceGuard {
    fn drop(&mut self) {
        // This has no effect if the request has already ended.
        self.end(false);
    }
}
