//! Export of traces with OTLP over HTTP, in batches, and of the metrics of model calls.
//!
//! The JSON encoding is used: every collector accepts it on the same port, and it needs no other crate. Spans
//! and attributes are named by OpenTelemetry's conventions for generative AI; other names begin with
//! `valvehouse.`.

mod exporter;
mod metrics;
mod span;

pub use exporter::Exporter;
