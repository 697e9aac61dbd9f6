//! The trace of one request: its caller, steps, costs and, on demand, values.

use super::facts::{Contents, EventRecord, Line, MAX_FACTS, RequestEnd, RequestFacts, short};
use super::prompt_cache::{PromptCacheWatch, PromptCaches};
use super::record::{StepRecord, TraceContents};
use crate::metrics::CallCost;
use crate::shared_queue::SharedQueue;
use crate::valve::Redactor;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::broadcast;
use valvehouse_json::Json;

/// Requests, which keys share.
pub(super) type TraceList = SharedQueue<Option<String>, Arc<Trace>>;

/// The prices of models.
pub trait Pricing: fmt::Debug + Send + Sync {
    /// Returns the cost of a model call in millionths. `requested` is the model of the request, which has another name than
    /// the one of the service, and may be another one: of a route, a fallback or a script.
    fn cost(&self, requested: &str, called: CalledModel<'_>, tokens: [u64; 2], cached: u64) -> u64;
}

/// A model under its name at a provider.
#[derive(Debug, Clone, Copy)]
pub struct CalledModel<'a> {
    /// The provider.
    pub provider: &'a str,
    /// The name of the model there.
    pub model: &'a str,
}

/// The trace of one request.
#[derive(Debug)]
pub struct Trace {
    /// The id, unique for the lifetime of the host.
    pub id: String,
    /// The facts about the request.
    pub request: RequestFacts,
    /// The time at which the request started.
    pub begun: SystemTime,
    pub(super) started: Instant,
    /// The plugins whose values are recorded in memory.
    pub(super) contents: Contents,
    /// Those of them whose values are also stored, because an operator records them.
    pub(super) configured: Contents,
    pub(super) facts: OnceLock<Json>,
    pub(super) parent: OnceLock<(String, String)>,
    pub(super) taken: Mutex<TraceContents>,
    pub(super) ended: OnceLock<RequestEnd>,
    pub(super) news: broadcast::Sender<News>,
    pub(super) prompt_caches: Arc<PromptCaches>,
    /// The prompt and completion tokens of all model calls of the request.
    pub(super) tokens: [AtomicU64; 2],
    /// Those of them that were read from a cache, and those with which the model reasoned.
    pub(super) token_kinds: [AtomicU64; 2],
    /// Their cost in millionths.
    pub(super) cost: AtomicU64,
    pub(super) pricing: Option<Arc<dyn Pricing>>,
    pub(super) key: OnceLock<String>,
    /// Redacts the secrets of plugins in the names of models, which scripts may set.
    pub(super) redactor: Redactor,
}

impl Trace {
    /// Returns the end of the request; `None` while it runs.
    pub fn ended(&self) -> Option<&RequestEnd> {
        self.ended.get()
    }

    /// Sets the name of the key that pays for the request.
    pub fn set_key(&self, name: &str) {
        // A request has one key.
        let _ = self.key.set(name.to_owned());
    }

    /// Returns the name of the key that pays for the request, if it is one that operators handed out.
    pub fn key(&self) -> Option<&str> {
        self.key.get().map(String::as_str)
    }

    /// Returns the owner of the request in lists that keys share.
    pub(super) fn owner(&self) -> Option<String> {
        self.key.get().cloned()
    }

    /// Adds the tokens of a model call, also of one by a script, with those from a cache and of reasoning.
    pub(crate) fn use_tokens(&self, called: CalledModel<'_>, tokens: [u64; 2], kinds: [u64; 2]) {
        let price = |pricing: &Arc<dyn Pricing>| pricing.cost(&self.request.model, called, tokens, kinds[0]);
        let cost = self.pricing.as_ref().map_or(0, price);
        let sums = self.tokens.iter().zip(tokens).chain(self.token_kinds.iter().zip(kinds));
        for (sum, count) in sums.chain([(&self.cost, cost)]) {
            if count > 0 {
                // The closure always returns a value, so this cannot fail.
                let _ = sum.fetch_update(Relaxed, Relaxed, |sum| Some(sum.saturating_add(count)));
            }
        }
    }

    /// Returns the prompt tokens from caches and the completion tokens of reasoning.
    pub fn token_kinds(&self) -> [u64; 2] {
        self.token_kinds.each_ref().map(|sum| sum.load(Relaxed))
    }

    /// Returns the prompt and completion tokens of all model calls so far, as their services reported them.
    pub fn tokens(&self) -> [u64; 2] {
        self.tokens.each_ref().map(|sum| sum.load(Relaxed))
    }

    /// Returns the cost of all model calls so far, in millionths of the currency of the prices.
    pub fn cost(&self) -> u64 {
        self.cost.load(Relaxed)
    }

    /// Returns the name of a model without the secrets of plugins.
    pub(crate) fn redact<'a>(&self, model: &'a str) -> Cow<'a, str> {
        self.redactor.redact(model)
    }

    /// Returns `true` if the values of a plugin are recorded; pass `None` for those of models.
    pub fn keeps(&self, plugin: Option<&str>) -> bool {
        self.contents.keeps(plugin)
    }

    /// Records the facts at the start of the turn, if any contents are recorded.
    pub fn remember(&self, facts: impl FnOnce() -> Json) {
        if !matches!(self.contents, Contents::None) {
            let facts = facts();
            if facts.size_estimate() <= MAX_FACTS {
                // A request has one turn, and its endpoint records the facts once.
                let _ = self.facts.set(facts);
            }
        }
    }

    /// Returns the facts at the start of the turn, if recorded.
    pub fn facts(&self) -> Option<&Json> {
        self.facts.get()
    }

    /// Sets the parent of the request from a W3C `traceparent`; any other text is ignored.
    pub fn belongs_to(&self, traceparent: &str) {
        let is_hex = |text: &str, length| {
            text.len() == length
                && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
                && text.bytes().any(|byte| byte != b'0')
        };
        let parts: Vec<&str> = traceparent.trim().split('-').collect();
        if let [_, id, parent, ..] = parts[..]
            && is_hex(id, 32)
            && is_hex(parent, 16)
        {
            // The header is read once per request.
            let _ = self.parent.set((id.to_owned(), parent.to_owned()));
        }
    }

    /// Returns the trace id and the span id of the parent.
    pub fn parent(&self) -> Option<(&str, &str)> {
        self.parent.get().map(|(id, parent)| (id.as_str(), parent.as_str()))
    }

    /// Records an error, before or during the answer.
    pub fn fail(&self, error: &str) {
        self.taken.lock().error = Some(short(error));
    }

    /// Returns the error message, if any.
    pub fn error(&self) -> Option<String> {
        self.taken.lock().error.clone()
    }

    /// Records an event that a script emitted.
    pub fn emitted(&self, plugin: &str, event: &Json) {
        let kind = short(&self.redact(&event.text_or_empty("type")));
        let event = self.keeps(Some(plugin)).then(|| event.deep_clone());
        publish(&self.news, || News::Emitted {
            trace: self.id.clone(),
            plugin: plugin.to_owned(),
            kind: kind.clone(),
            event: event.clone(),
        });
        self.remember_event(EventRecord { at: self.elapsed(), plugin: plugin.to_owned(), kind, event });
    }

    /// Starts to measure the effect of filters on the prompt cache, for a sample of the requests.
    pub(crate) fn watch_prompt_cache(
        &self,
        hook: &'static str,
        body: &Json,
    ) -> Option<Box<PromptCacheWatch>> {
        PromptCacheWatch::begin(&self.prompt_caches, (&self.request, self.started), hook, body)
    }

    /// Returns the time since the start of the request.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Adds the cost of a script's call to the running step of this hook.
    pub fn spend(&self, hook: &str, plugin: &str, spent: CallCost) {
        let mut taken = self.taken.lock();
        let Some(record) = taken.under_way(hook, plugin) else { return };
        record.cost.operations += spent.operations;
        record.cost.memory = record.cost.memory.max(spent.memory);
        record.cost.waited += spent.waited;
    }

    /// Records a log line of a script.
    pub fn line(&self, plugin: &str, level: &'static str, text: &str) {
        let text = self.keeps(Some(plugin)).then(|| text.to_owned());
        let line = Line { at: self.elapsed(), plugin: plugin.to_owned(), level, text, is_note: false };
        self.taken.lock().line(line);
    }

    /// Records the names of settings that are not sent to a provider. They are recorded even without contents.
    pub fn left_out(&self, provider: &str, names: &[String]) {
        self.provider_line(provider, "warn", format!("left out of the request: {}", names.join(", ")));
    }

    /// Records the names of fields that are changed for a provider. They are recorded even without contents.
    pub fn adapted(&self, provider: &str, names: &[String]) {
        self.provider_line(provider, "info", format!("adapted in the request: {}", names.join(", ")));
    }

    fn provider_line(&self, provider: &str, level: &'static str, text: String) {
        let (at, plugin) = (self.elapsed(), provider.to_owned());
        let line = Line { at, plugin, level, text: Some(short(&text)), is_note: true };
        self.taken.lock().line(line);
    }

    fn remember_event(&self, emitted: EventRecord) {
        self.taken.lock().emitted(emitted);
    }

    /// Records the body at the start of the turn, if everything is recorded. Of nested turns, only the
    /// outermost counts.
    pub fn begins_with(&self, body: &Json) {
        if !self.keeps(None) {
            return;
        }
        let mut taken = self.taken.lock();
        if taken.body.is_none() && taken.fits(body.size_estimate()) {
            taken.body = Some(body.deep_clone());
        }
    }

    /// Records the answer at the end of the turn, if everything is recorded. The outermost turn ends last.
    pub fn ends_with(&self, answer: &Json) {
        if !self.keeps(None) {
            return;
        }
        let mut taken = self.taken.lock();
        if taken.fits(answer.size_estimate()) {
            taken.answer = Some(answer.deep_clone());
        }
    }

    /// Returns `true` if no recorded part was omitted because of its size.
    pub fn is_whole(&self) -> bool {
        !self.taken.lock().is_full
    }

    /// Returns the body at the start of the turn, if recorded.
    pub fn body(&self) -> Option<Json> {
        self.taken.lock().body.clone()
    }

    /// Returns the answer at the end of the turn, if recorded.
    pub fn answer(&self) -> Option<Json> {
        self.taken.lock().answer.clone()
    }

    /// Returns the steps so far.
    pub fn records(&self) -> Vec<StepRecord> {
        self.taken.lock().records.iter().map(StepRecord::extrapolate).collect()
    }

    /// Returns the log lines so far.
    pub fn lines(&self) -> Vec<Line> {
        self.taken.lock().lines.clone()
    }

    /// Returns the events so far.
    pub fn events(&self) -> Vec<EventRecord> {
        self.taken.lock().events.clone()
    }

    /// Borrows the steps without copying them.
    pub(super) fn with_records<R>(&self, look: impl FnOnce(&[StepRecord]) -> R) -> R {
        look(&self.taken.lock().records)
    }

    /// Returns the number of bytes of recorded contents.
    pub(super) fn content(&self) -> usize {
        self.taken.lock().content
    }

    /// Removes all contents; names and numbers remain.
    pub(super) fn forget_contents(&self) {
        let mut taken = self.taken.lock();
        for details in taken.records.iter_mut().filter_map(|record| record.details.as_mut()) {
            (details.values, details.model_answer) = (Vec::new(), Vec::new());
        }
        (taken.body, taken.answer) = (None, None);
        taken.lines.iter_mut().for_each(|line| line.text = None);
        taken.events.iter_mut().for_each(|emitted| emitted.event = None);
        (taken.content, taken.is_full) = (0, true);
    }
}

/// A notification about a request.
#[derive(Debug, Clone)]
pub enum News {
    /// A request started.
    Begun(Arc<Trace>),
    /// A request ended.
    Ended(Arc<Trace>),
    /// A plugin emitted an event.
    Emitted {
        /// The id of the trace.
        trace: String,
        /// The plugin that emitted the event.
        plugin: String,
        /// The type of the event.
        kind: String,
        /// The complete event; `None` if contents are not recorded.
        event: Option<Json>,
    },
}

/// Sends a notification. It is not built if there are no receivers.
pub(super) fn publish(to: &broadcast::Sender<News>, news: impl FnOnce() -> News) {
    if to.receiver_count() > 0 {
        // A receiver may be gone by now, which is not an error.
        let _ = to.send(news());
    }
}
