//! The records of the steps of one request. Those that are taken for every event of a stream are added up.

use super::facts::{EventRecord, Line, short};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

/// Steps that one trace keeps; what comes later only counts.
const MAX_STEPS: usize = 1_000;
/// Bytes of contents that one trace keeps.
const MAX_CONTENT: usize = 4 << 20;
/// Events of a stream whose values are kept per hook.
const MAX_EVENTS: usize = 500;
/// Events whose time is always measured: reading the clock twice costs a tenth of a small hook.
const ALL_MEASURED: u64 = 64;
/// Of the later ones, one in so many.
const MEASURED: u64 = 8;
/// The word for a step that has not ended.
pub(super) const RUNNING: &str = "running";
/// The word for a step that went as it should: of events it is told only where it holds for all.
pub(super) const CONTINUE: &str = "continue";

/// The kind of a step.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// A hook of a filter.
    Hook(&'a Arc<str>, &'static str),
    /// A model is asked, `provider/model`.
    Model(&'a str),
    /// A tool is called.
    Tool {
        /// Its name, behind that of its module where it has one.
        name: &'a str,
        /// The plugin that brings it; its own name where none does.
        plugin: &'a str,
    },
}

impl What<'_> {
    /// The plugin whose values are seen here; `None` where a model is asked.
    pub(super) fn plugin(&self) -> Option<&str> {
        match self {
            Self::Hook(plugin, _) => Some(plugin),
            Self::Tool { plugin, .. } => Some(plugin),
            Self::Model(_) => None,
        }
    }

    fn hook(&self) -> &'static str {
        match self {
            Self::Hook(_, hook) => hook,
            Self::Model(_) => "model",
            Self::Tool { .. } => "tool",
        }
    }
}

/// Returns `true` if a hook is called for every event.
fn is_for_events(hook: &str) -> bool {
    is_same(hook, "stream")
}

/// Names and words are mostly the same piece of memory: then nobody has to read them.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other) || one == other
}

/// The cost of the calls of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// All of its time, waiting included; of many events it is what some of them took, times so many.
    pub took: Duration,
    /// The part of it that was waited.
    pub waited: Duration,
    /// Operations of the interpreter.
    pub operations: u64,
    /// The most memory one call held, in bytes.
    pub memory: u64,
}

/// The tokens of a model's answer, as its service counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Of what it was asked.
    pub prompt: u64,
    /// Of what it answered.
    pub completion: u64,
}

/// One step, or for events all calls of one hook in one answer. Of the requests that are kept there are thousands.
#[derive(Debug, Clone)]
pub struct StepRecord {
    /// The plugin, `module/tool`, or `provider/model`.
    pub name: Arc<str>,
    /// The hook, `model` or `tool`.
    pub hook: &'static str,
    /// The end of the step: `continue skip refused broke forgiven rests paused`, for models and tools `ended failed`,
    /// for a model that a filter cut short `stopped`, `gone` where nobody waited for the end, or `running`. Of events,
    /// the last that did not simply go on.
    pub word: &'static str,
    /// From the begin of the request.
    pub at: Duration,
    /// The number of calls.
    pub calls: u64,
    /// The cost of the calls.
    pub cost: Cost,
    pub(super) details: Option<Box<Details>>,
}

/// The details that few steps have.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// The reason for which it failed, where it did.
    pub cause: Option<String>,
    /// From its begin to the first piece of a streamed answer.
    pub first: Option<Duration>,
    /// The tokens of a model's answer, where the service reports them.
    pub tokens: Option<Tokens>,
    /// The number of calls that changed their value, of those whose values are kept.
    pub changed: u64,
    /// The values before and after, for who keeps contents; of events the first that fit.
    pub values: Vec<(Json, Option<Json>)>,
    /// The answer of a model before any filter saw it, where everything is kept: event by event, or the whole answer
    /// where it did not stream.
    pub heard: Vec<Json>,
    /// The plugin that brings a tool.
    plugin: Option<Arc<str>>,
    /// The number of calls that were not timed.
    untimed: u64,
}

impl StepRecord {
    fn new(what: What<'_>, at: Duration) -> Self {
        let name = match what {
            What::Hook(plugin, _) => plugin.clone(),
            What::Model(name) | What::Tool { name, .. } => short(name).into(),
        };
        let (hook, calls, cost) = (what.hook(), 0, Cost::default());
        let mut record = Self { name, hook, word: RUNNING, at, calls, cost, details: None };
        if let What::Tool { plugin, .. } = what {
            record.details_mut().plugin = Some(plugin.into());
        }
        record
    }

    /// The plugin; None for a model.
    pub fn plugin(&self) -> Option<&str> {
        match self.hook {
            "model" => None,
            "tool" => self.details().plugin.as_deref(),
            _ => Some(&self.name),
        }
    }

    /// The details that few steps have, and maybe this one.
    pub fn details(&self) -> &Details {
        static NONE: Details = Details {
            cause: None,
            first: None,
            tokens: None,
            changed: 0,
            values: Vec::new(),
            heard: Vec::new(),
            plugin: None,
            untimed: 0,
        };
        self.details.as_deref().unwrap_or(&NONE)
    }

    pub(super) fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// With the time of all calls in place of that of the timed ones.
    pub(super) fn told(&self) -> Self {
        let mut told = self.clone();
        let untimed = self.details().untimed;
        if untimed > 0 && untimed < self.calls {
            let share = self.calls as f64 / (self.calls - untimed) as f64;
            told.cost.took = self.cost.took.mul_f64(share);
        }
        told
    }
}

/// Everything that was done for one request.
#[derive(Debug, Default)]
pub(super) struct TraceContents {
    pub(super) records: Vec<StepRecord>,
    pub(super) lines: Vec<Line>,
    pub(super) events: Vec<EventRecord>,
    /// The reason for which the request fails.
    pub(super) error: Option<String>,
    /// The body its turn began with, before any filter.
    pub(super) body: Option<Json>,
    /// The answer its turn ended with, after every filter.
    pub(super) answer: Option<Json>,
    /// Bytes of contents.
    pub(super) content: usize,
    /// Something did not fit any more: what is kept is the begin of it all, without gaps.
    pub(super) is_full: bool,
    /// The step that began last: filters of events come one after the other, again and again.
    pub(super) last: usize,
    /// The beginning of those of the answer under way.
    pub(super) answering: usize,
}

/// A step that has begun: where it is, whether it is timed, whether its values still have a place.
pub(super) struct OpenStep {
    pub(super) place: usize,
    pub(super) timed: bool,
    pub(super) fits: bool,
}

impl TraceContents {
    /// None where there are too many.
    pub(super) fn begin(&mut self, what: What<'_>, clock: impl FnOnce() -> Duration) -> Option<OpenStep> {
        let own = match what {
            What::Hook(plugin, hook) if is_for_events(hook) => self.of_this_answer(plugin, hook),
            _ => None,
        };
        let place = match own {
            Some(place) => place,
            None if self.records.len() >= MAX_STEPS => return None,
            None => {
                self.records.push(StepRecord::new(what, clock()));
                if matches!(what, What::Model(_)) {
                    self.answering = self.records.len();
                }
                self.records.len() - 1
            }
        };
        self.last = place;
        let record = &mut self.records[place];
        let timed = record.calls < ALL_MEASURED || record.calls.is_multiple_of(MEASURED);
        record.calls += 1;
        if !timed {
            record.details_mut().untimed += 1;
        }
        let has_room = !is_for_events(record.hook) || record.details().values.len() < MAX_EVENTS;
        let fits = has_room && !self.is_full;
        Some(OpenStep { place, timed, fits })
    }

    /// Calls for events since a model was last asked: those before are another answer's.
    fn of_this_answer(&self, plugin: &Arc<str>, hook: &str) -> Option<usize> {
        let is_own = |place: &usize| {
            let record = &self.records[*place];
            is_same(&record.name, plugin) && is_same(record.hook, hook)
        };
        let next = (self.last + 1).clamp(self.answering, self.records.len());
        (next..self.records.len()).chain(self.answering..next).find(is_own)
    }

    /// The step of this kind that is under way: the innermost, since steps within steps end first.
    pub(super) fn under_way(&mut self, hook: &str, plugin: &str) -> Option<&mut StepRecord> {
        let is_named = !matches!(hook, "model" | "tool");
        let is_meant = |record: &StepRecord| {
            is_same(record.hook, hook)
                && (is_same(record.word, RUNNING) || is_for_events(hook))
                && (!is_named || is_same(&record.name, plugin))
        };
        if self.records.get(self.last).is_some_and(is_meant) {
            return self.records.get_mut(self.last);
        }
        self.records.iter_mut().rev().find(|record| is_meant(record))
    }

    pub(super) fn line(&mut self, line: Line) {
        if self.lines.len() < MAX_STEPS && self.fits(line.text.as_ref().map_or(0, String::len)) {
            self.lines.push(line);
        }
    }

    pub(super) fn emitted(&mut self, emitted: EventRecord) {
        if self.events.len() < MAX_STEPS && self.fits(emitted.event.as_ref().map_or(0, Json::weight)) {
            self.events.push(emitted);
        }
    }

    pub(super) fn keep(&mut self, place: usize, before: Json, after: Option<Json>) {
        let weight = before.weight() + after.as_ref().map_or(0, Json::weight);
        if !self.fits(weight) {
            return;
        }
        let record = &mut self.records[place];
        let is_changed = record.hook != "model" && record.hook != "tool";
        let is_changed = is_changed && after.as_ref().is_some_and(|after| *after != before);
        let details = record.details_mut();
        details.changed += u64::from(is_changed);
        details.values.push((before, after));
    }

    pub(super) fn fits(&mut self, bytes: usize) -> bool {
        self.is_full |= self.content + bytes > MAX_CONTENT;
        if self.is_full {
            return bytes == 0;
        }
        self.content += bytes;
        true
    }
}
