//! Conversion of traces to JSON.

use super::facts::{Contents, EventRecord, Line};
use super::record::{StepRecord, differ};
use super::trace::Trace;
use jiff::Timestamp;
use std::time::Duration;
use valvehouse_json::Json;
use valvehouse_json::diff::{DiffOperation, diff};

impl Trace {
    /// Returns the request and its outcome as one object, with the number of steps, lines and events.
    pub fn summary(&self) -> Json {
        Json::Object(self.fields().into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    fn fields(&self) -> Vec<(&'static str, Json)> {
        let (request, ended) = (&self.request, self.ended());
        let begun = Timestamp::try_from(self.begun).unwrap_or_default();
        let took = ended.map_or_else(|| self.elapsed(), |ended| ended.took);
        let (steps, changed, contents) = self.with_records(|records| {
            let changed: u64 = records.iter().map(|record| record.details().changed).sum();
            (records.len(), changed, records.iter().any(|record| !record.details().values.is_empty()))
        });
        vec![
            ("id", self.id.as_str().into()),
            ("begun", begun.to_string().into()),
            ("endpoint", request.endpoint.into()),
            ("model", request.model.as_str().into()),
            ("stream", request.stream.into()),
            ("user", request.user.as_str().into()),
            ("chat_id", request.chat_id.as_str().into()),
            ("generation", request.generation.into()),
            ("running", ended.is_none().into()),
            ("status", ended.map(|ended| u64::from(ended.status)).into()),
            ("outcome", self.outcome().into()),
            ("error", self.error().into()),
            ("whole", ended.is_some_and(|ended| ended.whole).into()),
            ("took_ms", ms(took)),
            ("steps", steps.into()),
            ("changed", changed.into()),
            ("contents", contents.into()),
        ]
    }

    /// Returns the complete trace: the summary with its steps, lines and events instead of their number.
    pub fn detail(&self) -> Json {
        let summary = self.fields().into_iter().filter(|(name, _)| *name != "steps");
        Json::Object(
            summary.chain(self.parts(&Contents::All)).map(|(name, value)| (name.into(), value)).collect(),
        )
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
            line.to_json()
        });
        let events = self.events().into_iter().map(|mut emitted| {
            emitted.event = emitted.event.filter(|_| contents.keeps(Some(&emitted.plugin)));
            emitted.to_json()
        });
        [("steps", steps.collect()), ("lines", lines.collect()), ("events", events.collect())]
    }
}

impl StepRecord {
    /// Converts the step to JSON, with its details.
    pub fn to_json(&self) -> Json {
        let details = self.details();
        let values: Vec<Json> =
            details.values.iter().map(|(before, after)| self.value(before, after)).collect();
        let fields: [(&str, Json); 17] = [
            ("name", (*self.name).into()),
            ("plugin", self.plugin().into()),
            ("hook", self.hook.into()),
            ("at_ms", ms(self.at)),
            ("calls", self.calls.into()),
            ("took_us", us(self.cost.took)),
            ("waited_us", us(self.cost.waited)),
            ("operations", self.cost.operations.into()),
            ("memory", self.cost.memory.into()),
            ("outcome", self.word.into()),
            ("cause", details.cause.as_deref().into()),
            ("first_us", details.first.map(us).into()),
            ("prompt_tokens", details.tokens.map(|tokens| tokens.prompt).into()),
            ("completion_tokens", details.tokens.map(|tokens| tokens.completion).into()),
            ("contents", (!values.is_empty()).into()),
            ("changed", details.changed.into()),
            ("values", values.into()),
        ];
        Json::from(fields)
    }

    fn value(&self, before: &Json, after: &Option<Json>) -> Json {
        // The input of a model or tool is not the same value as its output, so there is no difference to
        // compute.
        let is_same_thing = !matches!(self.hook, "model" | "tool");
        let changes = after
            .as_ref()
            .filter(|after| is_same_thing && differ(before, after))
            .map(|after| diff(before, after));
        let changes: Vec<Json> = changes.iter().flatten().map(DiffOperation::to_json).collect();
        Json::from([("before", before.clone()), ("after", after.clone().into()), ("diff", changes.into())])
    }
}

impl Line {
    fn to_json(&self) -> Json {
        Json::from([
            ("at_ms", ms(self.at)),
            ("plugin", self.plugin.as_str().into()),
            ("level", self.level.into()),
            ("text", self.text.as_deref().into()),
        ])
    }
}

impl EventRecord {
    fn to_json(&self) -> Json {
        Json::from([
            ("at_ms", ms(self.at)),
            ("plugin", self.plugin.as_str().into()),
            ("type", self.kind.as_str().into()),
            ("event", self.event.clone().into()),
        ])
    }
}

fn us(time: Duration) -> Json {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).into()
}

/// Returns milliseconds with three decimals.
fn ms(time: Duration) -> Json {
    (time.as_micros() as f64 / 1_000.0).into()
}
