//! A step in progress.

use super::facts::short;
use super::record::{CONTINUE, OpenStep, RUNNING, StepRecord, Tokens, What, is_same};
use super::trace::Trace;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;

impl Trace {
    /// Starts a step. If values are not recorded, it costs one clock reading, for events only occasionally.
    pub fn begin(&self, what: What<'_>, value: &Json) -> Step<&Self> {
        self.begin_after(None, what, value)
    }

    /// Starts a step directly after the end of another, reusing its clock reading.
    pub fn begin_after(&self, end: Option<End>, what: What<'_>, value: &Json) -> Step<&Self> {
        Step::begin(self, end, what, value)
    }

    /// Starts a step that may outlast the turn, for an answer whose bytes are passed through.
    pub fn begin_lasting(self: &Arc<Self>, what: What<'_>, value: &Json) -> Step<Arc<Self>> {
        Step::begin(self.clone(), None, what, value)
    }
}

/// The clock reading at the end of a step.
#[derive(Debug, Clone, Copy)]
pub struct End(Duration);

/// A step in progress. If it is dropped before its end, its caller disconnected.
pub struct Step<T: Deref<Target = Trace>> {
    trace: T,
    begun: Option<OpenStep>,
    before: Option<Json>,
    at: Duration,
    had_first: bool,
}

impl<T: Deref<Target = Trace>> Step<T> {
    fn begin(trace: T, end: Option<End>, what: What<'_>, value: &Json) -> Self {
        let mut at = end.map(|end| end.0);
        let begun = trace.taken.lock().begin(what, || *at.get_or_insert_with(|| trace.elapsed()));
        let (mut before, mut timed) = (None, false);
        if let Some(begun) = &begun {
            before = (begun.fits && trace.keeps(what.plugin())).then(|| value.deep_clone());
            timed = begun.timed;
        }
        let at = if timed { at.unwrap_or_else(|| trace.elapsed()) } else { Duration::ZERO };
        Self { trace, begun, before, at, had_first: false }
    }

    /// Returns the name of the step.
    pub fn name(&self) -> String {
        let Some(begun) = &self.begun else { return String::new() };
        self.trace.with_records(|records| records[begun.place].name.to_string())
    }

    /// Records the arrival of the first part of an answer; later calls have no effect.
    pub fn first(&mut self) {
        if !std::mem::replace(&mut self.had_first, true) {
            let took = self.trace.elapsed().saturating_sub(self.at);
            self.change(|record| record.details_mut().first = Some(took));
        }
    }

    /// Records what a model returned, before any filter.
    pub fn record_answer(&self, part: &Json) {
        let Some(begun) = self.begun.as_ref().filter(|_| self.trace.keeps(None)) else { return };
        let mut taken = self.trace.taken.lock();
        if taken.fits(part.size_estimate()) {
            taken.records[begun.place].details_mut().model_answer.push(part.deep_clone());
        }
    }

    /// Records the tokens of the answer.
    pub fn used(&self, tokens: Tokens) {
        self.change(|record| record.details_mut().tokens = Some(tokens));
    }

    /// Ends the step with its outcome, the reason for a failure, and the resulting value. Returns the clock
    /// reading if the step was timed and no values were recorded, because recording takes time.
    pub fn end(mut self, word: &'static str, cause: Option<&str>, after: Option<&Json>) -> Option<End> {
        self.ended(word, cause, after)
    }

    fn ended(&mut self, word: &'static str, cause: Option<&str>, after: Option<&Json>) -> Option<End> {
        let begun = self.begun.take()?;
        let before = self.before.take();
        let keeps = before.is_some();
        if !begun.timed && word == CONTINUE && !keeps {
            return None;
        }
        let end = begun.timed.then(|| self.trace.elapsed());
        let after = before.as_ref().and(after).map(Json::deep_clone);
        let mut taken = self.trace.taken.lock();
        if let Some(before) = before {
            taken.keep(begun.place, before, after);
        }
        let record = &mut taken.records[begun.place];
        record.cost.took += end.map_or(Duration::ZERO, |end| end.saturating_sub(self.at));
        if !is_same(word, CONTINUE) || is_same(record.word, RUNNING) {
            record.word = word;
        }
        if let Some(cause) = cause {
            record.details_mut().cause = Some(short(cause));
        }
        end.filter(|_| !keeps).map(End)
    }

    fn change(&self, change: impl FnOnce(&mut StepRecord)) {
        if let Some(begun) = &self.begun {
            change(&mut self.trace.taken.lock().records[begun.place]);
        }
    }
}

impl<T: Deref<Target = Trace>> Drop for Step<T> {
    fn drop(&mut self) {
        self.ended("gone", None, None);
    }
}
