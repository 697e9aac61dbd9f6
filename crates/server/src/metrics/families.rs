//! Conversion of metrics to Prometheus' text format.

use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use valvehouse_core::metrics::HistogramSnapshot;

/// The families in order of creation.
#[derive(Default)]
pub(super) struct Families(Vec<MetricFamily>);

/// The labels of one value.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// A family to which values are added.
pub(super) struct Family<'a>(&'a mut MetricFamily);

impl Families {
    /// Adds a counter, which only rises. The name ends in `_total`.
    pub(super) fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        self.begin(MetricType::COUNTER, name, help)
    }

    /// Adds a gauge, which rises and falls.
    pub(super) fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.begin(MetricType::GAUGE, name, help)
    }

    /// Adds a histogram. The name ends in a unit.
    pub(super) fn histogram(&mut self, name: &str, help: &str) -> Family<'_> {
        self.begin(MetricType::HISTOGRAM, name, help)
    }

    fn begin(&mut self, kind: MetricType, name: &str, help: &str) -> Family<'_> {
        let mut family = MetricFamily::default();
        // Metrics of the process have the standard names of all programs.
        let is_everybodys = name.starts_with("process_");
        family.set_name(if is_everybodys { name.to_owned() } else { format!("valvehouse_{name}") });
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        let place = self.0.len();
        self.0.push(family);
        Family(&mut self.0[place])
    }

    /// Encodes all families that contain metrics.
    pub(super) fn into_text(mut self) -> String {
        self.0.retain(|family| !family.get_metric().is_empty());
        TextEncoder::new().encode_to_string(&self.0).unwrap_or_else(|error| {
            // The encoder only rejects families without a name or without metrics.
            tracing::error!("cannot write metrics: {error}");
            String::new()
        })
    }
}

impl Family<'_> {
    /// Adds one value to a counter or gauge.
    pub(super) fn add(&mut self, labels: Labels<'_>, value: f64) {
        let mut metric = labelled(labels);
        if self.0.get_field_type() == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.0.mut_metric().push(metric);
    }

    /// Adds one histogram.
    pub(super) fn spread(&mut self, labels: Labels<'_>, spread: &HistogramSnapshot) {
        let buckets = spread.bounds.iter().zip(spread.counts).map(|(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(spread.count);
        histogram.set_sample_sum(spread.seconds);
        let mut metric = labelled(labels);
        metric.set_histogram(histogram);
        self.0.mut_metric().push(metric);
    }
}

fn labelled(labels: Labels<'_>) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    Metric::from_label(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use valvehouse_core::metrics::Histogram;

    #[test]
    fn metrics_have_help_type_and_escaped_labels() {
        let mut families = Families::default();
        families.gauge("empty", "nothing");
        families.counter("calls_total", "Calls.").add(&[("plugin", "a\"b\\c\nd")], 3.0);
        let spread = Histogram::of_scripts();
        spread.add(Duration::from_micros(2));
        families.histogram("time_seconds", "Time.").spread(&[("hook", "inlet")], &spread.read());
        let text = families.into_text();
        let begin = "# HELP valvehouse_calls_total Calls.\n# TYPE valvehouse_calls_total counter\n\
                     valvehouse_calls_total{plugin=\"a\\\"b\\\\c\\nd\"} 3\n";
        assert!(text.starts_with(begin), "{text}");
        for line in [
            "# TYPE valvehouse_time_seconds histogram",
            "valvehouse_time_seconds_bucket{hook=\"inlet\",le=\"0.000001\"} 0",
            "valvehouse_time_seconds_bucket{hook=\"inlet\",le=\"0.000004\"} 1",
            "valvehouse_time_seconds_bucket{hook=\"inlet\",le=\"+Inf\"} 1",
            "valvehouse_time_seconds_sum{hook=\"inlet\"} 0.000002",
            "valvehouse_time_seconds_count{hook=\"inlet\"} 1",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in {text}");
        }
    }
}
