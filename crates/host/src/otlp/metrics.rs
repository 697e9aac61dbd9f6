//! The metrics of OpenTelemetry's conventions for generative AI: the tokens and the time of each model call.

use super::span::{attributes, model};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use valvehouse_core::trace::{StepRecord, Trace};
use valvehouse_json::Json;

/// The maximum number of histograms. Calls of further models count for `_OTHER`.
const MAX_HISTOGRAMS: usize = 1_000;
/// The name of the models beyond [`MAX_HISTOGRAMS`].
const OTHERS: &str = "_OTHER";
/// The number of bounds, which the conventions give: each is a multiple of the one before.
const BOUNDS: usize = 14;

/// The histograms since the start of the host.
pub(super) struct ModelMetrics {
    begun: SystemTime,
    tokens: Family,
    durations: Family,
}

/// The histograms of one metric by their attributes: provider, model, and the type of tokens or the error.
struct Family {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    third: &'static str,
    bounds: [f64; BOUNDS],
    histograms: BTreeMap<[String; 3], Distribution>,
}

#[derive(Default)]
struct Distribution {
    buckets: [u64; BOUNDS + 1],
    sum: f64,
}

impl Default for ModelMetrics {
    fn default() -> Self {
        let bounds = |first: f64, factor: f64| std::array::from_fn(|place| first * factor.powi(place as i32));
        let family = |name, description, unit, third, bounds| {
            let histograms = BTreeMap::new();
            Family { name, description, unit, third, bounds, histograms }
        };
        Self {
            begun: SystemTime::now(),
            tokens: family(
                "gen_ai.client.token.usage",
                "The tokens of a model call.",
                "{token}",
                "gen_ai.token.type",
                bounds(1.0, 4.0),
            ),
            durations: family(
                "gen_ai.client.operation.duration",
                "The time of a model call.",
                "s",
                "error.type",
                bounds(0.01, 2.0),
            ),
        }
    }
}

impl ModelMetrics {
    /// Counts the model calls of a request.
    pub(super) fn count(&mut self, trace: &Trace) {
        let records = trace.records();
        let calls: Vec<&StepRecord> = records.iter().filter(|step| step.hook == "model").collect();
        for step in &calls {
            let error = if step.word == "failed" { "_OTHER" } else { "" };
            self.durations.add(step, error, step.cost.took.as_secs_f64());
            let of_step = step.details().tokens.map(|tokens| [tokens.prompt, tokens.completion]);
            // An answer that was passed through is counted with its request.
            let of_request = Some(trace.tokens()).filter(|tokens| calls.len() == 1 && *tokens != [0, 0]);
            for (kind, count) in
                ["input", "output"].into_iter().zip(of_step.or(of_request).into_iter().flatten())
            {
                self.tokens.add(step, kind, count as f64);
            }
        }
    }

    /// Returns the histograms in the form of OTLP; `None` without any.
    pub(super) fn to_json(&self) -> Option<Json> {
        let nanoseconds =
            |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos()).to_string();
        let (begun, now) = (nanoseconds(self.begun), nanoseconds(SystemTime::now()));
        let families = [&self.tokens, &self.durations].into_iter();
        let filled = families.filter(|family| !family.histograms.is_empty());
        let metrics: Vec<Json> = filled.map(|family| family.to_json(&begun, &now)).collect();
        (!metrics.is_empty()).then(|| metrics.into())
    }
}

impl Family {
    fn add(&mut self, step: &StepRecord, third: &str, value: f64) {
        let (provider, name) = model(step);
        let key = [provider, name, third].map(str::to_owned);
        let is_known = self.histograms.len() < MAX_HISTOGRAMS || self.histograms.contains_key(&key);
        let key = if is_known { key } else { [provider, OTHERS, third].map(str::to_owned) };
        let histogram = self.histograms.entry(key).or_default();
        histogram.buckets[self.bounds.partition_point(|bound| *bound < value)] += 1;
        histogram.sum += value;
    }

    fn to_json(&self, begun: &str, now: &str) -> Json {
        let points = self.histograms.iter().map(|([provider, model, third], histogram)| {
            let attributes = attributes([
                ("gen_ai.operation.name", "chat".into()),
                ("gen_ai.provider.name", provider.as_str().into()),
                ("gen_ai.request.model", model.as_str().into()),
                (self.third, third.as_str().into()),
            ]);
            let counts: Vec<Json> = histogram.buckets.iter().map(|count| count.to_string().into()).collect();
            let bounds: Vec<Json> = self.bounds.iter().map(|bound| (*bound).into()).collect();
            Json::from([
                ("attributes", attributes),
                ("startTimeUnixNano", begun.into()),
                ("timeUnixNano", now.into()),
                ("count", histogram.buckets.iter().sum::<u64>().to_string().into()),
                ("sum", histogram.sum.into()),
                ("bucketCounts", counts.into()),
                ("explicitBounds", bounds.into()),
            ])
        });
        // The sums are those since the start of the host.
        let histogram =
            [("aggregationTemporality", 2.into()), ("dataPoints", points.collect::<Vec<_>>().into())];
        Json::from([
            ("name", self.name.into()),
            ("description", self.description.into()),
            ("unit", self.unit.into()),
            ("histogram", Json::from(histogram)),
        ])
    }
}
