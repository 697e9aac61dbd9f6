//! The records of the steps of one request. The steps for the events of a stream are aggregated.

use super::facts::{EventRecord, Line, short};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

/// The maximum number of recorded steps; later ones are only counted.
const MAX_STEPS: usize = 1_000;
/// The maximum number of bytes of recorded contents.
const MAX_CONTENT: usize = 4 << 20;
/// The maximum number of stream events per hook whose values are recorded.
const MAX_EVENTS: usize = 500;
/// The number of first events that are always timed; reading the clock twice takes a tenth of a small hook.
const ALL_MEASURED: u64 = 64;
/// The interval at which later events are timed: one in this many.
const MEASURED: u64 = 8;
/// The outcome of a step that has not ended.
pub(super) const RUNNING: &str = "running";
/// The normal outcome of a step; for events, only if all of them continued.
pub(super) const CONTINUE: &str = "continue";

/// The kind of a step.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// A hook of a filter.
    Hook(&'a Arc<str>, &'static str),
    /// A call of a model, `provider/model`.
    Model(&'a str),
    /// A call of a tool.
    Tool {
        /// The name of the tool, prefixed with that of its module, if any.
        name: &'a str,
        /// The plugin that defines the tool, or the tool's own name.
        plugin: &'a str,
    },
}

impl What<'_> {
    /// Returns the plugin whose values the step contains; `None` for a model call.
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

/// Returns `true` if a call changed its value. The end of a stream without events has no value and changes nothing.
pub(super) fn differ(before: &Json, after: &Json) -> bool {
    before != after && !(before.is_null() && after.is_empty())
}

/// Returns `true` if a hook runs for each stream event.
fn is_for_events(hook: &str) -> bool {
    is_same(hook, "stream")
}

/// Compares two names. Most are the same memory, in which case their bytes are not compared.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other) || one == other
}

/// The cost of the calls of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The total time, including waiting. For many events, it is extrapolated from the timed ones.
    pub took: Duration,
    /// The time spent waiting.
    pub waited: Duration,
    /// The number of interpreter operations.
    pub operations: u64,
    /// The peak memory of one call, in bytes.
    pub memory: u64,
}

/// The token counts of a model's answer, as reported by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The number of prompt tokens.
    pub prompt: u64,
    /// The number of completion tokens.
    pub completion: u64,
}

/// A step or, for events, all calls of one hook for one answer. Small, because thousands are stored.
#[derive(Debug, Clone)]
pub struct StepRecord {
    /// The plugin, `module/tool`, or `provider/model`.
    pub name: Arc<str>,
    /// The hook, `model` or `tool`.
    pub hook: &'static str,
    /// The outcome: `continue skip refused failed ignored breaker_open paused`; for models and tools `ended` or
    /// `failed`; `stopped` for a model that a filter ended early; `gone` if the caller disconnected; or
    /// `running`. For events, the last outcome other than `continue`.
    pub word: &'static str,
    /// The time since the start of the request.
    pub at: Duration,
    /// The number of calls.
    pub calls: u64,
    /// The cost of the calls.
    pub cost: Cost,
    pub(super) details: Option<Box<Details>>,
}

/// The details that only few steps have.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// The reason for a failure, if any.
    pub cause: Option<String>,
    /// The time from the start of the step to the first part of a streamed answer.
    pub first: Option<Duration>,
    /// The token counts, if the provider reports them.
    pub tokens: Option<Tokens>,
    /// The number of calls that changed their value, among those whose values are recorded.
    pub changed: u64,
    /// The values before and after, if contents are recorded; for events, the first that fit.
    pub values: Vec<(Json, Option<Json>)>,
    /// The answer of a model before any filter, if everything is recorded: its events, or the complete answer
    /// if it was not streamed.
    pub model_answer: Vec<Json>,
    /// The plugin that defines a tool.
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

    /// Returns the plugin; `None` for a model.
    pub fn plugin(&self) -> Option<&str> {
        match self.hook {
            "model" => None,
            "tool" => self.details().plugin.as_deref(),
            _ => Some(&self.name),
        }
    }

    /// Returns the details, empty ones if the step has none.
    pub fn details(&self) -> &Details {
        static NONE: Details = Details {
            cause: None,
            first: None,
            tokens: None,
            changed: 0,
            values: Vec::new(),
            model_answer: Vec::new(),
            plugin: None,
            untimed: 0,
        };
        self.details.as_deref().unwrap_or(&NONE)
    }

    pub(super) fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// Returns the time of all calls, extrapolated from the timed ones.
    pub(super) fn took(&self) -> Duration {
        let untimed = self.details().untimed;
        if untimed > 0 && untimed < self.calls {
            let share = self.calls as f64 / (self.calls - untimed) as f64;
            return self.cost.took.mul_f64(share);
        }
        self.cost.took
    }

    /// Returns the record with the time of all calls.
    pub(super) fn extrapolate(&self) -> Self {
        let mut record = self.clone();
        record.cost.took = self.took();
        record
    }
}

/// The recorded steps, lines, events and values of one request.
#[derive(Debug, Default)]
pub(super) struct TraceContents {
    pub(super) records: Vec<StepRecord>,
    pub(super) lines: Vec<Line>,
    pub(super) events: Vec<EventRecord>,
    /// The error message of the request.
    pub(super) error: Option<String>,
    /// The body at the start of the turn, before any filter.
    pub(super) body: Option<Json>,
    /// The answer at the end of the turn, after all filters.
    pub(super) answer: Option<Json>,
    /// The number of bytes of contents.
    pub(super) content: usize,
    /// Set once the limit is reached; the contents recorded before it have no gaps.
    pub(super) is_full: bool,
    /// The index of the last started step, because event filters run repeatedly in order.
    pub(super) last: usize,
    /// The index of the first event step of the current answer.
    pub(super) answering: usize,
}

/// A started step: its index, and flags for timing and for recording its values.
pub(super) struct OpenStep {
    pub(super) place: usize,
    pub(super) timed: bool,
    pub(super) fits: bool,
}

impl TraceContents {
    /// Starts a step; `None` if there are too many.
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

    /// Returns the event step of the current answer; earlier steps belong to other answers.
    fn of_this_answer(&self, plugin: &Arc<str>, hook: &str) -> Option<usize> {
        let is_own = |place: &usize| {
            let record = &self.records[*place];
            is_same(&record.name, plugin) && is_same(record.hook, hook)
        };
        let next = (self.last + 1).clamp(self.answering, self.records.len());
        (next..self.records.len()).chain(self.answering..next).find(is_own)
    }

    /// Returns the running step of this kind. It is the innermost one, because nested steps end first.
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
        if self.events.len() < MAX_STEPS && self.fits(emitted.event.as_ref().map_or(0, Json::size_estimate)) {
            self.events.push(emitted);
        }
    }

    pub(super) fn keep(&mut self, place: usize, before: Json, after: Option<Json>) {
        let weight = before.size_estimate() + after.as_ref().map_or(0, Json::size_estimate);
        if !self.fits(weight) {
            return;
        }
        let record = &mut self.records[place];
        let is_changed = record.hook != "model" && record.hook != "tool";
        let is_changed = is_changed && after.as_ref().is_some_and(|after| differ(&before, after));
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
