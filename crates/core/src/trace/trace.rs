//! One request: who asked, the steps taken for it, their cost and, on demand, their values.

use super::facts::{Contents, EventRecord, Line, MAX_FACTS, RequestEnd, RequestFacts, short};
use super::prompt_cache::{PromptCacheWatch, PromptCaches};
use super::record::{StepRecord, TraceContents};
use crate::figures::Spent;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::broadcast;
use valvehouse_json::Json;

/// One request.
#[derive(Debug)]
pub struct Trace {
    /// Its name as long as this host runs.
    pub id: String,
    /// The request as its door knows it.
    pub asked: RequestFacts,
    /// The time at which it began.
    pub begun: SystemTime,
    pub(super) started: Instant,
    pub(super) contents: Contents,
    pub(super) facts: OnceLock<Json>,
    pub(super) parent: OnceLock<(String, String)>,
    pub(super) taken: Mutex<TraceContents>,
    pub(super) ended: OnceLock<RequestEnd>,
    pub(super) news: broadcast::Sender<News>,
    pub(super) prompt_caches: Arc<PromptCaches>,
}

impl Trace {
    /// The end of the request; `None` while it runs.
    pub fn ended(&self) -> Option<&RequestEnd> {
        self.ended.get()
    }

    /// Returns `true` if the values of this plugin are kept; of none, those of the models.
    pub fn keeps(&self, plugin: Option<&str>) -> bool {
        self.contents.keeps(plugin)
    }

    /// Remembers what its turn was begun with, where anything is kept that was said.
    pub fn remember(&self, facts: impl FnOnce() -> Json) {
        if !matches!(self.contents, Contents::None) {
            let facts = facts();
            if facts.weight() <= MAX_FACTS {
                // A request has one turn, and its door says it once.
                let _ = self.facts.set(facts);
            }
        }
    }

    /// The facts with which its turn began, where they are kept.
    pub fn facts(&self) -> Option<&Json> {
        self.facts.get()
    }

    /// Remembers what it is part of elsewhere: a `traceparent` as W3C writes it; anything else is nothing.
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
            // A request says it once.
            let _ = self.parent.set((id.to_owned(), parent.to_owned()));
        }
    }

    /// The trace elsewhere that it is part of, and the span there.
    pub fn parent(&self) -> Option<(&str, &str)> {
        self.parent.get().map(|(id, parent)| (id.as_str(), parent.as_str()))
    }

    /// The request fails, before its answer begins or in the middle of it.
    pub fn fail(&self, error: &str) {
        self.taken.lock().error = Some(short(error));
    }

    /// The reason for which it fails, where it does.
    pub fn error(&self) -> Option<String> {
        self.taken.lock().error.clone()
    }

    /// Returns `true` if a plugin has had a part in it.
    pub fn has_called(&self, plugin: &str) -> bool {
        self.with_records(|records| records.iter().any(|record| record.plugin() == Some(plugin)))
    }

    /// A script emits an event.
    pub fn emitted(&self, plugin: &str, event: &Json) {
        let kind = short(&event.text_or_empty("type"));
        let event = self.keeps(Some(plugin)).then(|| event.copy());
        tell(&self.news, || News::Emitted {
            trace: self.id.clone(),
            plugin: plugin.to_owned(),
            kind: kind.clone(),
            event: event.clone(),
        });
        self.remember_event(EventRecord { at: self.elapsed(), plugin: plugin.to_owned(), kind, event });
    }

    /// Begins to measure whether filters keep the prompt cache, in some of the requests.
    pub(crate) fn watch_prompt_cache(
        &self,
        hook: &'static str,
        body: &Json,
    ) -> Option<Box<PromptCacheWatch>> {
        PromptCacheWatch::begin(&self.prompt_caches, (&self.asked, self.started), hook, body)
    }

    /// The time since it began.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Adds the cost of a script's call to the step of this hook that is under way.
    pub fn spend(&self, hook: &str, plugin: &str, spent: Spent) {
        let mut taken = self.taken.lock();
        let Some(record) = taken.under_way(hook, plugin) else { return };
        record.cost.operations += spent.operations;
        record.cost.memory = record.cost.memory.max(spent.memory);
        record.cost.waited += spent.waited;
    }

    /// A script writes to the log.
    pub fn line(&self, plugin: &str, level: &'static str, text: &str) {
        let text = self.keeps(Some(plugin)).then(|| text.to_owned());
        let line = Line { at: self.elapsed(), plugin: plugin.to_owned(), level, text };
        self.taken.lock().line(line);
    }

    /// Notes the names of what a service is not sent; they are no contents.
    pub fn left_out(&self, provider: &str, names: &[String]) {
        let text = format!("left out of the request: {}", names.join(", "));
        let line = Line { at: self.elapsed(), plugin: provider.to_owned(), level: "warn", text: Some(text) };
        self.taken.lock().line(line);
    }

    fn remember_event(&self, emitted: EventRecord) {
        self.taken.lock().emitted(emitted);
    }

    /// Its turn begins with this body. Kept where everything is; of turns within it only the outermost counts.
    pub fn begins_with(&self, body: &Json) {
        if !self.keeps(None) {
            return;
        }
        let mut taken = self.taken.lock();
        if taken.body.is_none() && taken.fits(body.weight()) {
            taken.body = Some(body.copy());
        }
    }

    /// Its turn ends with this answer. Kept where everything is; the outermost turn ends last.
    pub fn ends_with(&self, answer: &Json) {
        if !self.keeps(None) {
            return;
        }
        let mut taken = self.taken.lock();
        if taken.fits(answer.weight()) {
            taken.answer = Some(answer.copy());
        }
    }

    /// Returns `true` if nothing that it was to keep was too much.
    pub fn is_whole(&self) -> bool {
        !self.taken.lock().is_full
    }

    /// The body its turn began with, where that is kept.
    pub fn body(&self) -> Option<Json> {
        self.taken.lock().body.clone()
    }

    /// The answer its turn ended with, where that is kept.
    pub fn answer(&self) -> Option<Json> {
        self.taken.lock().answer.clone()
    }

    /// The steps so far.
    pub fn records(&self) -> Vec<StepRecord> {
        self.taken.lock().records.iter().map(StepRecord::told).collect()
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<Line> {
        self.taken.lock().lines.clone()
    }

    /// The events so far.
    pub fn events(&self) -> Vec<EventRecord> {
        self.taken.lock().events.clone()
    }

    /// Looks at the steps in place.
    pub(super) fn with_records<R>(&self, look: impl FnOnce(&[StepRecord]) -> R) -> R {
        look(&self.taken.lock().records)
    }

    /// The bytes of contents that it holds.
    pub(super) fn content(&self) -> usize {
        self.taken.lock().content
    }

    /// Lets go of all contents; names and numbers stay.
    pub(super) fn forget_contents(&self) {
        let mut taken = self.taken.lock();
        for details in taken.records.iter_mut().filter_map(|record| record.details.as_mut()) {
            (details.values, details.heard) = (Vec::new(), Vec::new());
        }
        (taken.body, taken.answer) = (None, None);
        taken.lines.iter_mut().for_each(|line| line.text = None);
        taken.events.iter_mut().for_each(|emitted| emitted.event = None);
        (taken.content, taken.is_full) = (0, true);
    }
}

/// Something about a request.
#[derive(Debug, Clone)]
pub enum News {
    /// It begins.
    Begun(Arc<Trace>),
    /// It has ended.
    Ended(Arc<Trace>),
    /// A plugin emits an event in it.
    Emitted {
        /// The id of its trace.
        trace: String,
        /// The plugin whose event it is.
        plugin: String,
        /// The event's type.
        kind: String,
        /// All of it; None without contents.
        event: Option<Json>,
    },
}

/// Nothing is made where nobody listens.
pub(super) fn tell(to: &broadcast::Sender<News>, news: impl FnOnce() -> News) {
    if to.receiver_count() > 0 {
        // A receiver that went away meanwhile misses nothing.
        let _ = to.send(news());
    }
}
