//! Conversion of traces to JSON.

use super::facts::{Contents, EventRecord, Line};
use super::record::{Details, StepRecord, differ};
use super::trace::Trace;
use jiff::Timestamp;
use std::time::Duration;
use valvehouse_json::Json;
use valvehouse_json::diff::{DiffOperation, diff};

described! {
    /// The fields of a trace that are also in a list.
    #[cfg(feature = "typed")]
    pub struct TraceFacts;
    fn facts(trace: &Trace) with {
        let ended = trace.ended();
        let (changed, contents) = trace.with_records(|records| {
            let mut details = records.iter().map(StepRecord::details);
            let changed: u64 = details.clone().map(|details| details.changed).sum();
            (changed, details.any(|details| !details.values.is_empty()))
        });
    } {
        /// The id, which is also in the header `x-valvehouse-trace`.
        id: String = trace.id.as_str(),
        /// The start time in RFC 3339.
        begun: String = Timestamp::try_from(trace.begun).unwrap_or_default().to_string(),
        /// The endpoint.
        endpoint: String = trace.request.endpoint,
        model: String = trace.request.model.as_str(),
        stream: bool = trace.request.stream,
        /// The id of the user; empty if unknown.
        user: String = trace.request.user.as_str(),
        /// The id of the conversation; empty if there is none.
        chat_id: String = trace.request.chat_id.as_str(),
        /// The generation of plugins that handled the request.
        generation: u64 = trace.request.generation,
        /// Set while the request is in progress.
        running: bool = ended.is_none(),
        /// The HTTP status; null while the request is in progress.
        status: Option<u16> = ended.map(|ended| u64::from(ended.status)),
        /// `succeeded`, `disconnected`, `failed`, or the way in which a plugin ended the request: `refused`, `failed` or
        /// `breaker_open`; null while it runs.
        outcome: Option<String> = trace.outcome(),
        error: Option<String> = trace.error(),
        /// Set if the client received the whole answer.
        whole: bool = ended.is_some_and(|ended| ended.whole),
        took_ms: f64 = ms(ended.map_or_else(|| trace.elapsed(), |ended| ended.took)),
        /// The number of values that plugins changed.
        changed: u64 = changed,
        /// Set if values of any step are recorded.
        contents: bool = contents,
    }
}

described! {
    /// A request and its outcome.
    #[cfg(feature = "typed")]
    pub struct TraceSummary;
    fn summary(trace: &Trace) {
        ..facts: TraceFacts = facts(trace),
        /// The number of steps.
        steps: u64 = trace.with_records(|records| records.len()),
    }
}

described! {
    /// A request with its steps, lines and events.
    #[cfg(feature = "typed")]
    pub struct TraceDetail;
    fn detail(trace: &Trace) with {
        let [(_, steps), (_, lines), (_, events)] = trace.parts(&Contents::All);
    } {
        ..facts: TraceFacts = facts(trace),
        steps: Vec<TraceStep> = steps,
        lines: Vec<TraceLine> = lines,
        events: Vec<TraceEvent> = events,
    }
}

impl Trace {
    /// Returns the request and its outcome as one object, with the number of steps.
    pub fn summary(&self) -> Json {
        summary(self)
    }

    /// Returns the complete trace: the summary with its steps, lines and events instead of their number.
    pub fn detail(&self) -> Json {
        detail(self)
    }

    /// Returns the steps, lines and events with their names, as they are stored: without the values that only a client
    /// wanted to be recorded.
    pub fn stored_parts(&self) -> [(&'static str, Json); 3] {
        self.parts(&self.configured)
    }

    fn parts(&self, contents: &Contents) -> [(&'static str, Json); 3] {
        let steps = self.records().into_iter().map(|mut record| {
            let keeps = contents.keeps(record.plugin());
            if let (false, Some(details)) = (keeps, &mut record.details) {
                details.values.clear();
            }
            record.to_json()
        });
        let lines = self.lines().into_iter().map(|mut line| {
            line.text = line.text.filter(|_| line.is_note || contents.keeps(Some(&line.plugin)));
            self::line(&line)
        });
        let events = self.events().into_iter().map(|mut emitted| {
            emitted.event = emitted.event.filter(|_| contents.keeps(Some(&emitted.plugin)));
            event(&emitted)
        });
        [("steps", steps.collect()), ("lines", lines.collect()), ("events", events.collect())]
    }
}

described! {
    /// A call of a hook, a tool or a model, or several calls of a hook for events.
    #[cfg(feature = "typed")]
    pub struct TraceStep;
    fn step(record: &StepRecord, details: &Details) {
        name: String = &*record.name,
        plugin: Option<String> = record.plugin(),
        /// The hook, `tool` or `model`.
        hook: String = record.hook,
        /// The time since the start of the request, in milliseconds.
        at_ms: f64 = ms(record.at),
        calls: u64 = record.calls,
        took_us: u64 = us(record.cost.took),
        waited_us: u64 = us(record.cost.waited),
        operations: u64 = record.cost.operations,
        /// The allocated memory in bytes.
        memory: u64 = record.cost.memory,
        outcome: String = record.word,
        /// The reason for a failure or rejection.
        cause: Option<String> = details.cause.as_deref(),
        /// The time to the first byte of a model's answer, in microseconds.
        first_us: Option<u64> = details.first.map(us),
        prompt_tokens: Option<u64> = details.tokens.map(|tokens| tokens.prompt),
        completion_tokens: Option<u64> = details.tokens.map(|tokens| tokens.completion),
        contents: bool = !details.values.is_empty(),
        changed: u64 = details.changed,
        /// The recorded values, one for each call.
        values: Vec<TraceValue> =
            details.values.iter().map(|(before, after)| values(record, before, after)).collect::<Vec<_>>(),
    }
}

described! {
    /// A value before and after a call.
    #[cfg(feature = "typed")]
    pub struct TraceValue;
    fn values(record: &StepRecord, before: &Json, after: &Option<Json>) {
        before: serde_json::Value = before.clone(),
        after: serde_json::Value = after.clone(),
        diff: Vec<ValueChange> = record.changes(before, after),
    }
}

/// A change, as in JSON Patch (RFC 6902) with the values on both sides.
#[cfg(feature = "typed")]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "DiffOperation")]
#[expect(dead_code, reason = "it is the schema of what `DiffOperation::to_json` returns")]
pub struct ValueChange {
    op: String,
    /// A JSON Pointer.
    path: String,
    #[serde(default)]
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    before: serde_json::Value,
    #[serde(default)]
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    after: serde_json::Value,
}

impl StepRecord {
    /// Converts the step to JSON, with its details.
    pub fn to_json(&self) -> Json {
        step(self, self.details())
    }

    fn changes(&self, before: &Json, after: &Option<Json>) -> Vec<Json> {
        // The input of a model or tool is not the same value as its output, so there is no difference to
        // compute.
        let is_same_thing = !matches!(self.hook, "model" | "tool");
        let changes = after
            .as_ref()
            .filter(|after| is_same_thing && differ(before, after))
            .map(|after| diff(before, after));
        changes.iter().flatten().map(DiffOperation::to_json).collect()
    }
}

described! {
    /// A line that a script logged.
    #[cfg(feature = "typed")]
    pub struct TraceLine;
    fn line(line: &Line) {
        at_ms: f64 = ms(line.at),
        plugin: String = line.plugin.as_str(),
        level: String = line.level,
        /// Null unless values are recorded.
        text: Option<String> = line.text.as_deref(),
    }
}

described! {
    /// An event that a script emitted.
    #[cfg(feature = "typed")]
    pub struct TraceEvent;
    fn event(emitted: &EventRecord) {
        at_ms: f64 = ms(emitted.at),
        plugin: String = emitted.plugin.as_str(),
        kind as "type": String = emitted.kind.as_str(),
        /// Null unless values are recorded.
        event: serde_json::Value = emitted.event.clone(),
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns milliseconds with three decimals.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}
